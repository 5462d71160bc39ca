//! What a measurement found, as netperf's page and as JSON.

use super::times::Times;
use super::words::{Asked, SocketSizes, Test};
use std::time::Duration;

/// One end.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) processor_ns: u64,
    pub(super) sizes: SocketSizes,
}

/// Round trips, microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trips {
    p50: f64,
    p99: f64,
    p999: f64,
}

impl Trips {
    pub(super) fn of(times: &Times) -> Trips {
        Trips { p50: times.permille(500), p99: times.permille(990), p999: times.permille(999) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) asked: Asked,
    pub(super) elapsed: Duration,
    /// That the server received.
    pub(super) bytes: u64,
    pub(super) transactions: u64,
    pub(super) local: End,
    pub(super) remote: End,
    pub(super) trips: Option<Trips>,
    /// The part of all bytes that the kernel's TCP carried; `None`: not TCP, or many connections.
    pub(super) kernel_part: Option<f64>,
}

impl Figures {
    /// 10^6 bits or transactions in a second.
    pub(super) fn rate(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        match self.asked.test {
            Test::Stream => self.bytes as f64 * 8.0 / 1e6 / seconds,
            Test::Requests | Test::Connections => self.transactions as f64 / seconds,
        }
    }

    /// Percent of one processor.
    pub(super) fn utilisation(&self, end: &End) -> f64 {
        end.processor_ns as f64 / 1e7 / self.elapsed.as_secs_f64()
    }

    /// Microseconds of a processor for 1024 bytes or a transaction.
    pub(super) fn demand(&self, end: &End) -> f64 {
        let units = match self.asked.test {
            Test::Stream => self.bytes as f64 / 1024.0,
            Test::Requests | Test::Connections => self.transactions as f64,
        };
        end.processor_ns as f64 / 1e3 / units.max(1.0)
    }

    pub(super) fn page(&self) -> String {
        let (local, remote) = (&self.local, &self.remote);
        let (used, remote_used) = (self.utilisation(local), self.utilisation(remote));
        let (demand, remote_demand) = (self.demand(local), self.demand(remote));
        let (seconds, rate) = (self.elapsed.as_secs_f64(), self.rate());
        let Asked { test, request, response } = self.asked;
        let mut page = match test {
            Test::Stream => format!(
                "TCP STREAM TEST\n{STREAM_HEAD}{:6} {:6} {request:6}    {seconds:<7.2}  {rate:9.2}   \
                 {used:<7.2}  {remote_used:<7.2}  {demand:<7.3}  {remote_demand:.3}\n",
                remote.sizes.receive, local.sizes.send
            ),
            Test::Requests | Test::Connections => {
                let name = if test == Test::Requests { "" } else { "CONNECT/" };
                format!(
                    "TCP {name}REQUEST/RESPONSE TEST\n{REQUEST_HEAD}{:<6} {:<6} {request:<8} {response:<6} \
                     {seconds:<7.2} {rate:<10.2} {used:<6.2}  {remote_used:<6.2}  {demand:<7.3} \
                     {remote_demand:.3}\n{:<6} {:<6}\n",
                    local.sizes.send, local.sizes.receive, remote.sizes.send, remote.sizes.receive
                )
            }
        };
        if let Some(Trips { p50, p99, p999 }) = self.trips {
            page += &format!("round trip: p50 {p50:.2} us, p99 {p99:.2} us, p99.9 {p999:.2} us\n");
        }
        if let Some(part) = self.kernel_part {
            page += &format!("carried by the kernel's TCP: {:.1} % of all bytes\n", part * 100.0);
        }
        page
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let end = |end: &End| {
            serde_json::json!({
                "utilisation_percent": self.utilisation(end),
                "service_demand_us": self.demand(end),
                "processor_seconds": end.processor_ns as f64 / 1e9,
                "receive_buffer": end.sizes.receive,
                "send_buffer": end.sizes.send,
            })
        };
        serde_json::json!({
            "test": self.asked.test.name(),
            "request": self.asked.request,
            "response": self.asked.response,
            "seconds": self.elapsed.as_secs_f64(),
            "bytes": self.bytes,
            "transactions": self.transactions,
            "rate": self.rate(),
            "unit": if self.asked.test == Test::Stream { "10^6bits/s" } else { "transactions/s" },
            "local": end(&self.local),
            "remote": end(&self.remote),
            "round_trip_us": self.trips.map(|trips| {
                serde_json::json!({"p50": trips.p50, "p99": trips.p99, "p99.9": trips.p999})
            }),
            "kernel_part": self.kernel_part,
        })
    }
}

const STREAM_HEAD: &str = "\
Recv   Send   Send                            Utilization       Service Demand
Socket Socket Message   Elapsed               Send     Recv     Send     Recv
Size   Size   Size      Time     Throughput   local    remote   local    remote
bytes  bytes  bytes     secs.    10^6bits/s   %        %        us/KB    us/KB

";

const REQUEST_HEAD: &str = "\
Local /Remote
Socket Size   Request  Resp.  Elapsed Trans.     CPU     CPU     S.dem   S.dem
Send   Recv   Size     Size   Time    Rate       local   remote  local   remote
bytes  bytes  bytes    bytes  secs.   per sec    %       %       us/Tr   us/Tr

";

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(test: Test) -> Figures {
        let end = |processor_ns| End { processor_ns, sizes: SocketSizes { receive: 87380, send: 16384 } };
        Figures {
            asked: Asked { test, request: 65536, response: 1 },
            elapsed: Duration::from_secs(10),
            bytes: 1024 * 1_000_000,
            transactions: 200_000,
            local: end(2_000_000_000),
            remote: end(1_000_000_000),
            trips: None,
            kernel_part: Some(0.001),
        }
    }

    #[test]
    fn rates_and_service_demand_are_netperfs() {
        let stream = figures(Test::Stream);
        assert_eq!((stream.rate(), stream.utilisation(&stream.local)), (819.2, 20.0));
        assert_eq!((stream.demand(&stream.local), stream.demand(&stream.remote)), (2.0, 1.0));
        let requests = figures(Test::Requests);
        assert_eq!((requests.rate(), requests.demand(&requests.local)), (20_000.0, 10.0));
    }

    #[test]
    fn the_page_has_netperfs_columns() {
        let page = figures(Test::Stream).page();
        let row = page.lines().find(|line| line.contains("819.20")).unwrap();
        let numbers: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            numbers,
            ["87380", "16384", "65536", "10.00", "819.20", "20.00", "10.00", "2.000", "1.000"]
        );
        assert!(page.ends_with("carried by the kernel's TCP: 0.1 % of all bytes\n"));
        let page = figures(Test::Connections).page();
        let row = page.lines().find(|line| line.contains("20000.00")).unwrap();
        let numbers: Vec<&str> = row.split_whitespace().collect();
        let expected =
            ["16384", "87380", "65536", "1", "10.00", "20000.00", "20.00", "10.00", "10.000", "5.000"];
        assert_eq!(numbers, expected);
    }
}
