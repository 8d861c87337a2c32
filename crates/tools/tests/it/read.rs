use offshoot_tools::FileDigest;
use serde_json::json;

use crate::workbench::{Workbench, make_pipe, meta, refused};

fn numbered(from: usize, to: usize) -> String {
    (from..=to).map(|n| format!("{n}: line {n}\n")).collect()
}

fn file(to: usize) -> String {
    (1..=to).map(|n| format!("line {n}\n")).collect()
}

#[tokio::test]
async fn a_whole_file_ends_with_its_length() {
    let bench = Workbench::new();
    bench.put("notes/a.rs", "alpha\r\n\n\tbeta");
    let output = bench
        .call(
            bench.tool("read").as_ref(),
            json!({ "file_path": "./notes/a.rs" }),
        )
        .await
        .unwrap();
    assert_eq!(
        output.text,
        format!(
            "<path>{}</path>\n<type>file</type>\n<content>\n1: alpha\n2: \n3: \tbeta\n\n(End of file - total 3 lines)\n</content>",
            bench.path("notes/a.rs").display()
        )
    );
    assert_eq!(
        meta(&bench, &output),
        json!({
            "path": "[dir]/notes/a.rs",
            "offset": 1,
            "lines": [
                { "number": 1, "text": "alpha" },
                { "number": 2, "text": "" },
                { "number": 3, "text": "\tbeta" },
            ],
            "totalLines": 3,
            "lang": "rs",
            "digest": FileDigest::of(b"alpha\r\n\n\tbeta").to_string(),
        })
    );
}

#[tokio::test]
async fn a_window_says_how_to_go_on() {
    let bench = Workbench::new();
    bench.put("a.txt", file(10));
    let tool = bench.tool("read");
    let read = async |offset: usize, limit: usize| {
        let arguments = json!({ "file_path": "a.txt", "offset": offset, "limit": limit });
        let text = bench.text(tool.as_ref(), arguments).await;
        text.split_once("<content>\n")
            .unwrap()
            .1
            .replace("\n</content>", "")
    };
    assert_eq!(
        read(5, 4).await,
        format!(
            "{}\n(Showing lines 5-8 of 10. Use offset=9 to continue.)",
            numbered(5, 8)
        )
    );
    assert_eq!(
        read(9, 4).await,
        format!("{}\n(End of file - total 10 lines)", numbered(9, 10))
    );
    assert_eq!(
        read(10, 1).await,
        format!("{}\n(End of file - total 10 lines)", numbered(10, 10))
    );
}

#[tokio::test]
async fn two_thousand_lines_are_read_unless_asked_otherwise() {
    let bench = Workbench::new();
    bench.put("a.txt", file(2001));
    let text = bench
        .text(bench.tool("read").as_ref(), json!({ "file_path": "a.txt" }))
        .await;
    assert_eq!(
        text,
        format!(
            "<path>[dir]/a.txt</path>\n<type>file</type>\n<content>\n{}\n(Showing lines 1-2000 of 2001. Use offset=2001 to continue.)\n</content>",
            numbered(1, 2000)
        )
    );
}

#[tokio::test]
async fn too_many_bytes_end_the_window_at_a_whole_line() {
    let bench = Workbench::new();
    let line = "é".repeat(1000);
    bench.put("a.txt", format!("{line}\n").repeat(30));
    let text = bench
        .text(bench.tool("read").as_ref(), json!({ "file_path": "a.txt" }))
        .await;
    // 9 lines of 2004 bytes and 16 of 2005 are 50116; one more would be above 51200.
    let shown: String = (1..=25).map(|n| format!("{n}: {line}\n")).collect();
    assert_eq!(
        text,
        format!(
            "<path>[dir]/a.txt</path>\n<type>file</type>\n<content>\n{shown}\n(Output is limited to 51200 bytes. Showing lines 1-25 of 30. Use offset=26 to continue.)\n</content>"
        )
    );
}

#[tokio::test]
async fn a_long_line_is_cut_by_characters() {
    let bench = Workbench::new();
    bench.put(
        "a.txt",
        format!("{}\n{}\nz", "😀".repeat(2000), "😀".repeat(50_000)),
    );
    let text = bench
        .text(bench.tool("read").as_ref(), json!({ "file_path": "a.txt" }))
        .await;
    let emoji = "😀".repeat(2000);
    assert_eq!(
        text,
        format!(
            "<path>[dir]/a.txt</path>\n<type>file</type>\n<content>\n1: {emoji}\n2: {emoji} [... line cut at 2000 characters]\n3: z\n\n(End of file - total 3 lines)\n</content>"
        )
    );
}

#[tokio::test]
async fn an_empty_file_has_no_lines() {
    let bench = Workbench::new();
    bench.put("a.txt", "");
    let output = bench
        .call(bench.tool("read").as_ref(), json!({ "file_path": "a.txt" }))
        .await
        .unwrap();
    assert!(
        output
            .text
            .ends_with("<content>\n\n\n(End of file - total 0 lines)\n</content>")
    );
    assert_eq!(
        meta(&bench, &output),
        json!({
            "path": "[dir]/a.txt",
            "offset": 1,
            "lines": [],
            "totalLines": 0,
            "digest": FileDigest::of(b"").to_string(),
        })
    );
}

#[tokio::test]
async fn bytes_that_are_not_text_are_replaced() {
    let bench = Workbench::new();
    bench.put("a.txt", b"caf\xE9\n");
    let text = bench
        .text(bench.tool("read").as_ref(), json!({ "file_path": "a.txt" }))
        .await;
    assert!(text.contains("\n1: caf\u{FFFD}\n"), "{text}");
}

#[tokio::test]
async fn what_cannot_be_read_is_named_with_its_reason() {
    let bench = Workbench::new();
    bench.put("a.txt", "alpha\n");
    bench.put("b.bin", b"\x7FELF\0\0");
    make_pipe(&bench.path("pipe"));
    std::os::unix::fs::symlink("nowhere", bench.path("dangling")).unwrap();
    let cases = [
        (
            json!({ "file_path": "none.txt" }),
            "FS_NOT_FOUND",
            "cannot read `[dir]/none.txt`: it does not exist",
        ),
        (
            json!({ "file_path": "dangling" }),
            "FS_NOT_FOUND",
            "cannot read `[dir]/dangling`: it does not exist",
        ),
        (
            json!({ "file_path": "." }),
            "FS_IS_A_DIRECTORY",
            "cannot read `[dir]`: it is a directory",
        ),
        (
            json!({ "file_path": "pipe" }),
            "FS_NOT_A_FILE",
            "cannot read `[dir]/pipe`: it is neither a file nor a directory",
        ),
        (
            json!({ "file_path": "a.txt/b" }),
            "FS_NOT_A_DIRECTORY",
            "cannot read `[dir]/a.txt/b`: a part of the path is a file, not a directory",
        ),
        (
            json!({ "file_path": "b.bin" }),
            "FS_BINARY_FILE",
            "cannot read `[dir]/b.bin`: it is a binary file (ELF), and read shows text only",
        ),
        (
            json!({ "file_path": "a.txt", "offset": 2 }),
            "FS_OFFSET_OUT_OF_RANGE",
            "cannot read `[dir]/a.txt` from line 2: it has only 1 lines",
        ),
    ];
    for (arguments, code, message) in cases {
        assert_eq!(
            bench
                .refusal(bench.tool("read").as_ref(), arguments.clone())
                .await,
            refused(code, message),
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn images_and_binary_files_are_called_what_they_are() {
    let bench = Workbench::new();
    for (name, content, kind) in [
        ("a", &b"\x89PNG\r\n\x1A\n\0\0"[..], "an image (PNG)"),
        ("b", b"\xFF\xD8\xFF\xE0", "an image (JPEG)"),
        ("c", b"GIF89a", "an image (GIF)"),
        ("d", b"RIFF\x10\0\0\0WEBPVP8 ", "an image (WebP)"),
        ("e", b"%PDF-1.7\n", "a binary file (PDF)"),
        ("f", b"PK\x03\x04", "a binary file (ZIP)"),
        ("g", b"\xFF\xFEa\0b\0", "a binary file (UTF-16 text)"),
        ("h", b"some text\0more", "a binary file"),
    ] {
        bench.put(name, content);
        assert_eq!(
            bench.refuses("read", json!({ "file_path": name })).await,
            refused(
                "FS_BINARY_FILE",
                &format!("cannot read `[dir]/{name}`: it is {kind}, and read shows text only")
            )
        );
    }
    // A zero byte far behind the beginning does not make a text unreadable.
    bench.put("late", [&b"x\n".repeat(8192)[..], b"\0"].concat());
    assert!(
        bench
            .run("read", json!({ "file_path": "late" }))
            .await
            .is_ok()
    );
}
