use super::*;
use offshoot_session::*;
use std::fmt::Write;
#[test]
fn timing() {
    for turns in [2500u64, 10000, 40000] {
        let mut s = String::new();
        let mut seq = 0u64;
        for t in 1..=turns {
            let _ = writeln!(s, r#"turn/start {{"turn":{t}}}"#);
            let _ = writeln!(s, r#"step/start {{"turn":{t},"step":1}}"#);
            seq += 2;
            if t == 1 {
                let _ = writeln!(
                    s,
                    r#"system/message {{"turn":1,"step":1,"message":{{"id":"s","role":"system","source":{{"kind":"system-prompt"}},"content":[]}}}}"#
                );
                let _ = writeln!(
                    s,
                    r#"request/header {{"header":{{"config":{{"provider":"p","model":"m"}}}},"reason":"initial"}}"#
                );
                seq += 2;
            }
            let _ = writeln!(
                s,
                r#"user/message {{"id":"u","role":"user","source":{{"kind":"user"}},"content":[{{"type":"text","text":"hello tool-result plugin"}}]}}"#
            );
            let _ = writeln!(
                s,
                r#"session/title {{"title":"t","messageSeqs":[{seq}],"source":{{"kind":"fallback"}}}}"#
            );
            let _ = writeln!(
                s,
                r#"llm/retry {{"retryId":"r{t}","turn":{t},"step":1,"provider":"p","policyKey":"k","retry":1}}"#
            );
            let _ = writeln!(
                s,
                r#"assistant/message {{"turn":{t},"step":1,"message":{{"id":"a","role":"assistant","source":{{"kind":"model","provider":"p","model":"m"}},"content":[{{"type":"tool-call","id":"c","name":"ls","arguments":"{{}}"}}]}},"stream":[]}}"#
            );
            let _ = writeln!(
                s,
                r#"tool/call {{"turn":{t},"step":1,"callId":"c","name":"ls","arguments":"{{}}"}}"#
            );
            let _ = writeln!(
                s,
                r#"tool/result {{"turn":{t},"step":1,"message":{{"id":"r","role":"tool","toolCallId":"c","source":{{"kind":"tool","callId":"c"}},"content":[]}}}}"#
            );
            let _ = writeln!(s, r#"step/end {{"turn":{t},"step":1}}"#);
            let _ = writeln!(
                s,
                r#"turn/end {{"turn":{t},"reason":{{"kind":"completed"}}}}"#
            );
            seq += 8;
        }
        let events = events(&[&s]);
        let mut a = Admission::new();
        let t0 = std::time::Instant::now();
        for e in &events {
            a.admit(e).unwrap();
        }
        let ta = t0.elapsed();
        let mut log = EventLog::new();
        let mut r = Relationships::new(&header(), LogOffset::START);
        let (mut tr, mut tl) = (std::time::Duration::ZERO, std::time::Duration::ZERO);
        let n = events.len();
        for e in events {
            let t = std::time::Instant::now();
            r.check(&e, &log).unwrap();
            tr += t.elapsed();
            let t = std::time::Instant::now();
            log.push(e).unwrap();
            tl += t.elapsed();
        }
        eprintln!("{n} events: admit {ta:?} relate {tr:?} push {tl:?}");
    }
}
