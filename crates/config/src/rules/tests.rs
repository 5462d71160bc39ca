//! The grammar and the matching of `libvma.conf`, point by point.

use super::{Role, Rules, Transport};
use crate::Parameters;
use core::net::SocketAddrV4;

fn at(text: &str) -> Option<SocketAddrV4> {
    Some(text.parse().unwrap())
}

fn rules(text: &str) -> Rules {
    let (rules, notices) = Rules::parse("test.conf", text);
    assert_eq!(notices, [], "{text}");
    rules
}

fn server(text: &str, local: &str) -> Transport {
    rules(text).compile("prog", "id").decide(Role::TcpServer, at(local), None)
}

fn client(text: &str, remote: &str, local: &str) -> Transport {
    rules(text).compile("prog", "id").decide(Role::TcpClient, at(local), at(remote))
}

#[test]
fn without_a_rule_sockets_are_accelerated() {
    assert_eq!(server("", "10.0.0.1:80"), Transport::Vma);
    assert_eq!(server("use os tcp_client *:*", "10.0.0.1:80"), Transport::Vma);
}

#[test]
fn only_a_rule_that_names_a_socket_demands_it() {
    let demands = |text: &str, remote: &str| {
        rules(text).compile("prog", "id").demands(Role::TcpClient, None, at(remote))
    };
    assert!(!demands("", "10.0.0.1:80") && !demands("use * tcp_client *:*", "10.0.0.1:80"));
    assert!(!demands("use vma tcp_server *:*", "10.0.0.1:80"));
    let text = "use os tcp_client *:22\nuse vma tcp_client 10.0.0.0/8:*";
    assert!(demands(text, "10.0.0.1:80") && !demands(text, "11.0.0.1:80") && !demands(text, "10.0.0.1:22"));
}

#[test]
fn first_rule_that_fits_wins() {
    let text = "use os tcp_server 10.0.0.0/8:80\nuse vma tcp_server *:*\nuse os tcp_server *:*";
    assert_eq!(server(text, "10.9.9.9:80"), Transport::Os);
    assert_eq!(server(text, "11.0.0.1:80"), Transport::Vma);
    assert_eq!(server(text, "10.9.9.9:81"), Transport::Vma);
}

#[test]
fn first_group_that_fits_decides_alone() {
    let text = "application-id prog *\nuse os udp_sender *:*\napplication-id * *\nuse os tcp_server *:*";
    assert_eq!(server(text, "10.0.0.1:80"), Transport::Vma);
}

#[test]
fn groups_are_chosen_by_program_pattern_and_id() {
    let text = "application-id pr?g a\nuse os tcp_server *:1\napplication-id other *\nuse os tcp_server *:2\n\
                application-id * id\nuse os tcp_server *:3";
    assert_eq!(server(text, "1.1.1.1:1"), Transport::Vma);
    assert_eq!(server(text, "1.1.1.1:2"), Transport::Vma);
    assert_eq!(server(text, "1.1.1.1:3"), Transport::Os);
    let any_id = rules(text).compile("prog", "*");
    assert_eq!(any_id.decide(Role::TcpServer, at("1.1.1.1:1"), None), Transport::Os);
    let told = |id: &str| {
        let parameters = Parameters { application_id: id.to_owned(), ..Parameters::default() };
        rules(text).unknown_id(&parameters).map(|notice| notice.text)
    };
    assert_eq!(told("id"), None);
    assert_eq!(told(&Parameters::default().application_id), None, "nobody asked for it");
    let text = told("nobody").unwrap();
    assert!(
        text.starts_with("VMA_APPLICATION_ID='nobody': /etc/libvma.conf has no group of this id"),
        "{text}"
    );
}

#[test]
fn a_group_named_again_is_continued() {
    let text = "application-id prog *\nuse os tcp_server *:1\napplication-id x *\nuse os tcp_server *:2\n\
                application-id prog *\nuse os tcp_server *:3";
    assert_eq!(server(text, "1.1.1.1:3"), Transport::Os);
    assert_eq!(server(text, "1.1.1.1:2"), Transport::Vma);
}

#[test]
fn rules_before_any_group_are_for_everybody() {
    let text = "use os tcp_server *:7\napplication-id prog *\nuse os tcp_server *:8";
    assert_eq!(server(text, "1.1.1.1:7"), Transport::Os);
    assert_eq!(server(text, "1.1.1.1:8"), Transport::Vma);
}

#[test]
fn blanks_may_stand_between_all_tokens() {
    let text = "  use\tos  tcp_server  10.1.2.3 / 24 : 5 - 7  # why not";
    assert_eq!(server(text, "10.1.2.99:6"), Transport::Os);
    assert_eq!(server(text, "10.1.3.99:6"), Transport::Vma);
    assert_eq!(server(text, "10.1.2.99:8"), Transport::Vma);
}

#[test]
fn prefixes_mask_host_bits() {
    assert_eq!(server("use os tcp_server 192.168.1.5/24:*", "192.168.1.200:9"), Transport::Os);
    assert_eq!(server("use os tcp_server 9.9.9.9/0:*", "192.168.1.6:9"), Transport::Os);
}

#[test]
fn a_prefix_that_is_longer_than_an_address_is_told_and_counts_as_one_address() {
    let (rules, notices) = Rules::parse("file", "\nuse os tcp_server 192.168.1.5/33:*\n");
    let told: Vec<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
    let decide = |local| rules.decide(Role::TcpServer, "any", "", at(local), None);
    assert_eq!(decide("192.168.1.5:9"), Transport::Os);
    assert_eq!(decide("192.168.1.6:9"), Transport::Vma);
    assert_eq!(told, ["file:2: a prefix of 33 bits is read as 32: an IPv4 address has no more"]);
}

#[test]
fn a_mark_of_the_byte_order_is_passed_over_and_one_elsewhere_is_shown() {
    let (rules, notices) =
        Rules::parse("file", "\u{feff}use os tcp_server *:*\n\u{feff}use os tcp_server *:*\n");
    let told: Vec<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
    assert_eq!(
        told,
        ["file:2: '?use' begins no statement; expected use, application-id or log; line ignored"]
    );
    assert!(!rules.explain(Role::TcpServer, "any", "", None, None).accelerates);
}

#[test]
fn the_first_address_of_a_client_is_the_remote_one() {
    let three = "use os tcp_client 10.0.0.1:80";
    assert_eq!(client(three, "10.0.0.1:80", "10.0.0.2:999"), Transport::Os);
    assert_eq!(client(three, "10.0.0.2:80", "10.0.0.1:80"), Transport::Vma);
    let five = "use os tcp_client *:80:10.0.0.2:*";
    assert_eq!(client(five, "10.0.0.1:80", "10.0.0.2:999"), Transport::Os);
    assert_eq!(client(five, "10.0.0.1:80", "10.0.0.3:999"), Transport::Vma);
}

#[test]
fn the_second_address_of_a_server_is_not_looked_at() {
    assert_eq!(server("use os tcp_server *:80:1.2.3.4:9", "10.0.0.1:80"), Transport::Os);
}

#[test]
fn an_unknown_address_fits_stars_only() {
    let process = rules("use os udp_sender 0.0.0.0/0:*").compile("prog", "id");
    assert_eq!(process.decide(Role::UdpSender, None, None), Transport::Vma);
    let process = rules("use os udp_sender *:*").compile("prog", "id");
    assert_eq!(process.decide(Role::UdpSender, None, None), Transport::Os);
}

#[test]
fn sdp_rules_are_passed_over_unless_asked_for() {
    let text = "use sdp tcp_client *:*\nuse sa tcp_client *:*\nuse os tcp_client *:*";
    let process = rules(text).compile("prog", "id");
    assert_eq!(process.decide(Role::TcpClient, None, at("1.1.1.1:1")), Transport::Os);
    assert_eq!(process.with_sdp().decide(Role::TcpClient, None, at("1.1.1.1:1")), Transport::Sdp);
}

#[test]
fn star_transport_counts_as_os_at_connect_only() {
    let process = rules("use * tcp_client *:*\nuse * tcp_server *:*").compile("prog", "id");
    assert_eq!(process.decide(Role::TcpClient, None, at("1.1.1.1:1")), Transport::Any);
    assert!(!process.accelerates(Role::TcpClient, None, at("1.1.1.1:1")));
    assert!(process.accelerates(Role::TcpServer, at("1.1.1.1:1"), None));
}

#[test]
fn a_program_without_any_accelerated_tcp_is_seen_at_once() {
    let compiled = |text: &str| rules(text).compile("prog", "id");
    assert!(compiled("use os tcp_server *:*\nuse os tcp_client 0.0.0.0/0:0-65535").leaves_all_tcp());
    assert!(!compiled("use os tcp_server *:*").leaves_all_tcp());
    assert!(
        !compiled("use os tcp_server *:*\nuse vma tcp_client 1.1.1.1:*\nuse os tcp_client *:*")
            .leaves_all_tcp()
    );
    assert!(!compiled("use os tcp_server *:*\nuse os tcp_client *:*:1.1.1.1:*").leaves_all_tcp());
    assert!(compiled("use os udp_sender *:*\nuse os udp_receiver *:*").leaves_all_udp());
}

#[test]
fn comments_logs_and_words_with_hashes_are_taken() {
    let text = "# comment\n\n   # another\nlog destination stderr min-level 9 # x\nlog destination yfile a.log\n\
                application-id #prog #id # comment\r\nuse os tcp_server *:*";
    let process = rules(text).compile("#prog", "#id");
    assert_eq!(process.decide(Role::TcpServer, at("1.1.1.1:1"), None), Transport::Os);
}

#[test]
fn a_wrong_line_is_told_by_file_and_line_and_skipped() {
    let wrong = [
        ("use os tcp_server *", "expected ':'"),
        ("use os tcp_sever *:*", "'tcp_sever' is no role"),
        ("use OS tcp_server *:*", "'OS' is no transport"),
        ("use os tcp_server 1.2.3:*", "IPv4 address"),
        ("use os tcp_server 1.2.3.256:*", "256"),
        ("use os tcp_server 1.2.3.4:70000", "70000"),
        ("use os tcp_server 1.2.3.4:0100", "leading zero"),
        ("use os tcp_server *:9-3", "empty"),
        ("use os tcp_server *:*:*", "expected ':'"),
        ("use os tcp_server *:* more", "'more'"),
        ("use os tcp_server *:99999999999999", "too large"),
        ("application-id one", "two words"),
        ("application-id one two three", "two words"),
        ("log destination printer", "'printer'"),
        ("listen 80", "'listen'"),
    ];
    for (line, expected) in wrong {
        let text = format!("use os tcp_server *:1\n{line}\nuse os tcp_server *:2\n");
        let (rules, notices) = Rules::parse("/etc/libvma.conf", &text);
        assert_eq!(notices.len(), 1, "{line}");
        let told = &notices[0].text;
        assert!(told.starts_with("/etc/libvma.conf:2: ") && told.contains(expected), "{told}");
        let process = rules.compile("prog", "id");
        assert_eq!(process.decide(Role::TcpServer, at("1.1.1.1:1"), None), Transport::Os);
        assert_eq!(process.decide(Role::TcpServer, at("1.1.1.1:2"), None), Transport::Os);
    }
}

#[test]
fn a_line_that_is_added_later_comes_first_and_a_bad_one_changes_nothing() {
    let mut process = rules("application-id prog *\nuse vma tcp_server *:5").compile("prog", "id");
    assert!(process.add_first("use os nothing").unwrap_err().contains("no role"));
    assert!(process.add_first("application-id other *").is_err() && process.add_first("# word").is_err());
    assert_eq!(process.decide(Role::TcpServer, at("1.1.1.1:5"), None), Transport::Vma);
    assert_eq!(process.add_first("use os tcp_server *:5"), Ok(()));
    assert_eq!(process.decide(Role::TcpServer, at("1.1.1.1:5"), None), Transport::Os);
}

#[test]
fn the_file_we_ship_is_understood() {
    let shipped = rules(include_str!("../../../../conf/libvma.conf"));
    let process = shipped.compile("anything", "VMA_DEFAULT_APPLICATION_ID");
    assert_eq!(process.decide(Role::TcpClient, None, at("10.0.0.1:80")), Transport::Vma);
    assert_eq!(process.decide(Role::UdpConnect, None, at("10.0.0.1:53")), Transport::Os);
    let launcher = shipped.compile("systemd-socket-activate", "VMA_DEFAULT_APPLICATION_ID");
    assert_eq!(launcher.decide(Role::TcpServer, at("10.0.0.1:80"), None), Transport::Os);
}

#[test]
fn a_decision_is_explained_by_its_line_and_group() {
    let text = "# web\napplication-id ng* B1\nuse os tcp_client 10.0.0.0/8:80\n\nuse vma tcp_server *:*\n";
    let rules = rules(text);
    let at = |text: &str| Some(text.parse().unwrap());
    let told = rules.explain(Role::TcpClient, "nginx", "B1", None, at("10.1.1.1:80"));
    assert_eq!((told.accelerates, told.line), (false, Some(3)));
    assert_eq!(told.group, Some(("ng*".to_owned(), "B1".to_owned())));
    let told = rules.explain(Role::TcpClient, "nginx", "B1", None, at("10.1.1.1:81"));
    assert_eq!((told.accelerates, told.line), (true, None));
    assert_eq!(rules.explain(Role::TcpServer, "nginx", "B1", at("0.0.0.0:80"), None).line, Some(5));
    assert_eq!(rules.explain(Role::TcpServer, "redis", "B1", at("0.0.0.0:80"), None).group, None);
}

#[test]
fn the_manuals_example_of_rules_decides_as_it_says() {
    const EXAMPLE: &str =
        "application-id tcp-lat B1\nuse vma tcp_client 192.168.1.0/24:*:*:*\nuse os tcp_server *:5001\n";
    let (rules, notices) = Rules::parse("libvma.conf", EXAMPLE);
    assert_eq!(notices, []);
    let decide = |role, program: &str, id: &str, address: &str| {
        let address = Some(address.parse().unwrap());
        let (local, remote) = if role == Role::TcpServer { (address, None) } else { (None, address) };
        rules.decide(role, program, id, local, remote)
    };
    assert_eq!(decide(Role::TcpServer, "tcp-lat", "B1", "10.0.0.1:5001"), Transport::Os);
    assert_eq!(decide(Role::TcpServer, "tcp-lat", "B1", "10.0.0.1:5002"), Transport::Vma);
    assert_eq!(decide(Role::TcpClient, "tcp-lat", "B1", "192.168.1.7:80"), Transport::Vma);
    // Without VMA_APPLICATION_ID=B1, and for other programs, the group says nothing.
    assert_eq!(
        decide(Role::TcpServer, "tcp-lat", "VMA_DEFAULT_APPLICATION_ID", "10.0.0.1:5001"),
        Transport::Vma
    );
    assert_eq!(decide(Role::TcpServer, "other", "B1", "10.0.0.1:5001"), Transport::Vma);
}
