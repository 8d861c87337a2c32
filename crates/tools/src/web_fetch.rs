//! `web_fetch`: a page of the public Internet, as text.

use std::error::Error;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use offshoot_tool_api::{
    Concurrency, Effects, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
    ToolSpec, schemars,
};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde::{Deserialize, Serialize};

use crate::files::{blocking, meta};
use crate::output::{keep, kept_notice};
use crate::web_address::{PublicResolver, Refused, WebReach};
use crate::web_page::text_of;

const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 10;
/// The most bytes of a response that are read.
const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;
/// The most characters of a result.
const MAX_CHARS: usize = 200_000;
const USER_AGENT: &str = concat!("offshoot/", env!("CARGO_PKG_VERSION"));
const ACCEPTED: &str = "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.1";

const DESCRIPTION: &str = "Fetches a page from the Internet and returns it as text, HTML as Markdown. Follows \
redirects. Addresses of this machine and of private networks are refused, and so is what is not text. Up to 200000 \
characters are returned.";

/// The tool `web_fetch`.
///
/// It only asks servers for pages, so it may run in parallel. It goes to them directly and not through a proxy: a proxy
/// would look up names itself, and then nobody could say which address is asked.
#[derive(Debug)]
pub(crate) struct WebFetchTool {
    spec: ToolSpec,
    reach: WebReach,
    /// Made when it is needed: reading the root certificates takes longer than anything else at the start.
    client: OnceLock<Client>,
}

impl WebFetchTool {
    pub(crate) fn new(reach: WebReach) -> Self {
        Self {
            spec: ToolSpec::typed::<Arguments>("web_fetch", DESCRIPTION),
            reach,
            client: OnceLock::new(),
        }
    }

    fn client(&self) -> Result<&Client, ToolError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::builder()
            .user_agent(USER_AGENT)
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .dns_resolver(Arc::new(PublicResolver(self.reach)))
            .build()
            .map_err(|error| failed(&format!("cannot use the network: {}", reason(&error))))?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Asks for a page, and for what it leads to.
    async fn fetch(&self, url: Url) -> Result<Response, ToolError> {
        let client = self.client()?;
        let mut url = url;
        for _ in 0..=MAX_REDIRECTS {
            self.check(&url)?;
            let request = client.get(url.clone()).header(ACCEPT, ACCEPTED);
            let response = request
                .send()
                .await
                .map_err(|error| unreached(&url, &error))?;
            let location = header(response.headers(), &LOCATION);
            let Some(location) = location.filter(|_| response.status().is_redirection()) else {
                return Ok(response);
            };
            url = url.join(location).map_err(|error| {
                failed(&format!(
                    "`{url}` redirects to `{location}`, which is no URL: {error}"
                ))
            })?;
        }
        Err(ToolError::new(
            "WebError",
            "WEB_TOO_MANY_REDIRECTS",
            format!(
                "there were more than {MAX_REDIRECTS} redirects; the last one leads to `{url}`"
            ),
        ))
    }

    /// Checks what can be said of a URL before anybody is asked. Names are checked when they are looked up.
    fn check(&self, url: &Url) -> Result<(), ToolError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused(&format!(
                "cannot fetch `{url}`: only http and https are fetched"
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused(
                "cannot fetch a URL with a user name or password in it",
            ));
        }
        let host = url.host_str().unwrap_or_default();
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        match literal.parse::<IpAddr>() {
            Ok(address) if !self.reach.allows(address) => Err(refused_address(
                url,
                &Refused {
                    host: address.to_string(),
                    address,
                },
            )),
            _ => Ok(()),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The URL, beginning with `https://` or `http://`.
    url: String,
}

#[async_trait]
impl Tool for WebFetchTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    fn concurrency(&self, _arguments: &ToolArguments) -> Concurrency {
        Concurrency::Parallel
    }

    fn timeout(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { url } = arguments.parse()?;
        let url = Url::parse(&url).map_err(|error| {
            ToolError::invalid_arguments(format!("invalid argument `url`: {error}"))
        })?;
        let page = async {
            let response = self.fetch(url).await?;
            Page::read(response).await
        };
        let page = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::aborted()),
            page = page => page?,
        };
        let spill = cx.spill.clone();
        blocking(move || {
            let text = page.text()?;
            let mut shown = text.as_str();
            let cut = text.char_indices().nth(MAX_CHARS);
            if let Some((end, _)) = cut {
                shown = &text[..end];
            }
            let mut said = format!("{}\n\n{shown}", page.heading());
            if cut.is_some() {
                said.push_str(&format!("\n[… cut at {MAX_CHARS} characters]"));
                if let Some(file) = keep(spill.as_ref(), text.as_bytes()) {
                    said.push('\n');
                    said.push_str(&kept_notice(&file));
                }
            }
            if page.is_cut {
                said.push_str(&format!(
                    "\n[The page is longer: only its first {MAX_BODY_BYTES} bytes were read.]"
                ));
            }
            let facts = Facts {
                url: page.url.as_str(),
                status_code: page.status,
                content_type: page.content_type.as_deref(),
                truncated: cut.is_some() || page.is_cut,
            };
            Ok(ToolOutput::text(said).with_meta(meta(&facts)))
        })
        .await
    }
}

/// Facts for front ends.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts<'a> {
    url: &'a str,
    status_code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    truncated: bool,
}

/// A response that was read.
struct Page {
    url: Url,
    status: u16,
    content_type: Option<String>,
    body: Vec<u8>,
    /// Whether the body goes on.
    is_cut: bool,
}

impl Page {
    async fn read(mut response: Response) -> Result<Self, ToolError> {
        let mut page = Self {
            url: response.url().clone(),
            status: response.status().as_u16(),
            content_type: header(response.headers(), &CONTENT_TYPE).map(str::to_owned),
            body: Vec::new(),
            is_cut: false,
        };
        while let Some(bytes) = response
            .chunk()
            .await
            .map_err(|error| unreached(&page.url, &error))?
        {
            let room = MAX_BODY_BYTES - page.body.len();
            page.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if bytes.len() > room {
                page.is_cut = true;
                break;
            }
        }
        Ok(page)
    }

    fn heading(&self) -> String {
        let content_type = self.content_type.as_deref().unwrap_or("no content type");
        format!(
            "Fetched {} (HTTP {}, {content_type})",
            self.url, self.status
        )
    }

    fn text(&self) -> Result<String, ToolError> {
        text_of(&self.body, self.content_type.as_deref()).map_err(|kind| {
            ToolError::new(
                "WebError",
                "WEB_BINARY",
                format!(
                    "{}: it is {kind}, and only text is returned",
                    self.heading()
                ),
            )
        })
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn failed(message: &str) -> ToolError {
    ToolError::new("WebError", "WEB_FETCH_FAILED", message)
}

fn refused(message: &str) -> ToolError {
    ToolError::new("WebError", "WEB_URL_REFUSED", message)
}

fn refused_address(url: &Url, refused: &Refused) -> ToolError {
    ToolError::new(
        "WebError",
        "WEB_ADDRESS_REFUSED",
        format!("cannot fetch `{url}`: {refused}"),
    )
}

/// No answer, or not all of it.
fn unreached(url: &Url, error: &reqwest::Error) -> ToolError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return refused_address(url, refused);
        }
        cause = error.source();
    }
    failed(&format!("cannot fetch `{url}`: {}", reason(error)))
}

/// The innermost cause, which says most.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
