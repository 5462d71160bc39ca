//! Programs that start, fetch or send, and end: what opening and leaving costs them counts.

use std::time::Instant;

use super::nginx::{self, CURL, NGINX};
use super::{App, Figures, GRACE, Stage, content, end, parse};
use crate::{Context, Error, Package, Result};

const CURL_200: App = App {
    name: "curl-200",
    what: "curl of 1 kB, 200 times, from start to end",
    unit: "programs/s",
    needs: &[NGINX, CURL],
    middle: false,
    bypasses: false,
    beside: 0,
    large: false,
    goal: None,
    run: curl,
};

pub(super) const APPS: &[App] = &[
    CURL_200,
    App {
        name: "wget-r",
        what: "wget -r of 301 files, compared",
        unit: "files/s",
        needs: &[NGINX, Package { program: "wget", package: "wget" }],
        run: wget,
        ..CURL_200
    },
    App {
        name: "rsync",
        what: "rsync of 50 MB from a daemon, compared",
        unit: "MB/s",
        needs: &[Package { program: "rsync", package: "rsync" }],
        run: rsync,
        ..CURL_200
    },
    App {
        name: "nuttcp",
        what: "nuttcp, 1 stream",
        unit: "Mbit/s",
        needs: &[Package { program: "nuttcp", package: "nuttcp" }],
        run: nuttcp,
        ..CURL_200
    },
    App {
        name: "sipp",
        what: "SIPp over UDP, 1500 calls a second offered, no call may fail",
        unit: "calls/s",
        needs: &[Package { program: "sipp", package: "sip-tester" }],
        run: sipp,
        ..CURL_200
    },
];

fn curl(stage: &Stage<'_>) -> Result<Figures> {
    let wanted = "k".repeat(1024);
    std::fs::write(stage.file("kilobyte"), &wanted).context("the kilobyte")?;
    let server = nginx::nginx(stage)?;
    let url = format!("http://{}:{}/kilobyte", stage.hosts.right.address, nginx::PORT);
    let curl = stage.client("curl").words("-sS --max-time 20").argument(&url);
    let start = Instant::now();
    for _ in 0..200 {
        let got = stage.ask(&curl)?.stdout;
        if got != wanted {
            return Err(Error::new(format!("{url}: {} bytes, other than the file", got.len())));
        }
    }
    let rate = 200.0 / start.elapsed().as_secs_f64();
    nginx::quit(stage, server)?;
    Ok(Figures { rate, ..Figures::default() })
}

fn wget(stage: &Stage<'_>) -> Result<Figures> {
    let mut index = String::new();
    for number in 0..300 {
        std::fs::write(stage.file(&format!("f{number}")), content(10_000, number)).context("a file")?;
        index.push_str(&format!("<a href=\"f{number}\">{number}</a>\n"));
    }
    std::fs::write(stage.file("index.html"), index).context("the index")?;
    let server = nginx::nginx(stage)?;
    let got = stage.file("got");
    std::fs::create_dir_all(&got).context(got.display())?;
    let url = format!("http://{}:{}/", stage.hosts.right.address, nginx::PORT);
    let wget = stage.client("wget").words("-q -r -nH -T 20 -t 1 -P").argument(&got).argument(&url);
    let start = Instant::now();
    for _ in 0..stage.seconds {
        stage.ask(&wget)?;
    }
    let rate = 301.0 * f64::from(stage.seconds) / start.elapsed().as_secs_f64();
    for number in 0..300 {
        nginx::same(&got.join(format!("f{number}")), &content(10_000, number))?;
    }
    nginx::quit(stage, server)?;
    Ok(Figures { rate, ..Figures::default() })
}

fn rsync(stage: &Stage<'_>) -> Result<Figures> {
    let wanted = content(50_000_000, 3);
    let from = stage.file("from");
    std::fs::create_dir_all(&from).context(from.display())?;
    std::fs::write(from.join("large"), &wanted).context("the large file")?;
    let address = stage.hosts.right.address;
    let folder = stage.folder.0.display();
    let text = format!("pid file = {folder}/pid\nuse chroot = no\nuid = root\n[m]\npath = {folder}/from\n");
    let configuration = stage.file("rsyncd.conf");
    std::fs::write(&configuration, text).context(configuration.display())?;
    let words = format!("--daemon --no-detach --address={address} --config={}", configuration.display());
    let server = stage.serve(&stage.server("rsync").words(&words), 873)?;
    let to = stage.file("to");
    let client = stage.client("rsync").words(&format!("-W rsync://{address}/m/large")).argument(&to);
    let (start, mut megabytes) = (Instant::now(), 0.0);
    for _ in 0..stage.seconds {
        let _ = std::fs::remove_file(&to);
        stage.ask(&client)?;
        nginx::same(&to, &wanted)?;
        megabytes += 50.0;
    }
    let rate = megabytes / start.elapsed().as_secs_f64();
    end(server)?;
    Ok(Figures { rate, ..Figures::default() })
}

fn nuttcp(stage: &Stage<'_>) -> Result<Figures> {
    let _server = stage.serve(&stage.server("nuttcp").words("-S --nofork"), 5000)?;
    let words = format!("-T{} -fparse {}", stage.seconds, stage.hosts.right.address);
    let said = stage.ask(&stage.client("nuttcp").words(&words))?.stdout;
    let rate = parse::number(&said, "rate_Mbps=")?;
    if rate == 0.0 {
        return Err(Error::new(format!("nuttcp: nothing was received:\n{said}")));
    }
    Ok(Figures { rate, ..Figures::default() })
}

fn sipp(stage: &Stage<'_>) -> Result<Figures> {
    const RATE: u32 = 1500;
    let (client, server) = (stage.hosts.left.address, stage.hosts.right.address);
    let words = format!("-sn uas -i {server} -p 5060 -nostdin -trace_err");
    let mut uas = stage.server("sipp").words(&words).directory(&stage.folder.0).start()?;
    uas.wait_for_port(crate::Protocol::Udp, 5060, GRACE)?;
    let calls = RATE * stage.seconds;
    let words = format!(
        "-sn uac {server}:5060 -i {client} -p 5061 -r {RATE} -m {calls} -l 10000 -nostdin -timeout 30s"
    );
    let start = Instant::now();
    let said =
        stage.client("sipp").words(&words).directory(&stage.folder.0).run(GRACE * 2)?.success()?.stdout;
    let rate = f64::from(calls) / start.elapsed().as_secs_f64();
    let screen = said.rfind("Successful call").map_or("", |at| &said[at..]);
    if !screen.lines().next().is_some_and(|line| line.trim_end().ends_with(&calls.to_string())) {
        return Err(Error::new(format!("SIPp: not every call of {calls} succeeded:\n{said}")));
    }
    Ok(Figures { rate, ..Figures::default() })
}
