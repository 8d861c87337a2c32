//! A port where nobody listens, yet.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

use super::ScriptedModelServer;
use super::reply::Reply;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 128;

/// A loopback port that refuses connections. It is held, so that nobody else can open it meanwhile.
#[derive(Debug)]
pub struct ClosedPort(TcpSocket);

impl ClosedPort {
    /// Takes a free port.
    ///
    /// # Panics
    /// If there is none.
    #[expect(clippy::new_without_default, reason = "each is another port")]
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("make a socket");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        socket.bind(any).expect("bind a loopback port");
        Self(socket)
    }

    /// The URL that a server here will have.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Begins to listen, with these replies.
    pub fn listen(self, replies: impl IntoIterator<Item = Reply>) -> ScriptedModelServer {
        ScriptedModelServer::on(self, replies)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("a bound socket has an address")
    }

    /// Within the runtime that will accept the connections.
    pub(super) fn into_listener(self) -> TcpListener {
        self.0.listen(BACKLOG).expect("listen on the bound port")
    }
}
