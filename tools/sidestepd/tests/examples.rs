//! The examples for containers are YAML, and say of the keeper what is so: its capabilities, its options, its folder.
//! systemd finds nothing wrong with the units.

use std::path::Path;
use std::process::Command;

/// Prints what does not hold. Arguments: the files' folder, the keeper's help.
const CHECK: &str = "\
import sys,yaml
folder, usage = sys.argv[1:]
FIVE = {'NET_ADMIN', 'NET_RAW', 'BPF', 'PERFMON', 'IPC_LOCK'}
def load(name):
    documents = list(yaml.safe_load_all(open(f'{folder}/{name}')))
    assert len(documents) == 1, name
    return documents[0]
def check(name, held, dropped, options, mounts, is_keeper):
    assert dropped == {'ALL'}, f'{name}: drops {dropped}'
    assert held == (FIVE if is_keeper else set()), f'{name}: adds {held}'
    assert '/run/sidestep' in mounts, f'{name}: mounts {mounts}'
    for option in options if is_keeper else []:
        assert not option.startswith('--') or f'{option} ' in usage, f'{name}: {option}'
compose = load('compose.yaml')
for name, service in compose['services'].items():
    mounts = [volume.split(':')[1] for volume in service['volumes']]
    added = set(service.get('cap_add', []))
    check(name, added, set(service['cap_drop']), service['command'], mounts, name == 'keeper')
redis = compose['services']['redis']
assert redis['depends_on']['keeper']['condition'] == 'service_healthy', 'it begins before the keeper listens'
assert compose['services']['keeper']['healthcheck']['test'] == ['CMD', 'sidestep', 'status']
assert redis['network_mode'] == redis['pid'] == 'service:keeper'
for name in 'pod.yaml', 'daemonset.yaml':
    document = load(name)
    spec = document['spec'] if document['kind'] == 'Pod' else document['spec']['template']['spec']
    assert spec.get('shareProcessNamespace') or spec.get('hostPID'), name
    for container in spec.get('initContainers', []) + spec['containers']:
        held = container['resources']
        guaranteed = held['requests'] == held['limits'] and {'cpu', 'memory'} <= set(held['limits'])
        assert guaranteed or document['kind'] != 'Pod', f'{name}: {held} is not Guaranteed'
        rights = container['securityContext']['capabilities']
        mounts = [mount['mountPath'] for mount in container['volumeMounts']]
        check(f'{name} {container[\"name\"]}', set(rights.get('add', [])), set(rights['drop']),
              container['args'], mounts, container['image'] == 'sidestep')
print('checked')
";

#[test]
fn the_examples_for_containers_say_what_is_so() {
    let has_yaml = Command::new("python3").args(["-c", "import yaml"]).output();
    if !has_yaml.is_ok_and(|tried| tried.status.success()) {
        rig::skip::skipped(&rig::skip::test_name(), "no python3-yaml: apt-get install python3-yaml");
        return;
    }
    let usage = Command::new(env!("CARGO_BIN_EXE_sidestepd")).arg("--help").output().unwrap().stdout;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/containers");
    let mut check = Command::new("python3");
    check.args(["-c", CHECK]).arg(folder).arg(String::from_utf8(usage).unwrap());
    let told = check.output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&told.stdout),
        "checked\n",
        "{}",
        String::from_utf8_lossy(&told.stderr)
    );
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    if !Command::new("systemd-analyze").arg("--version").output().is_ok_and(|told| told.status.success()) {
        rig::skip::skipped(&rig::skip::test_name(), "no systemd-analyze: apt-get install systemd");
        return;
    }
    let folder = std::env::temp_dir().join(format!("sidestepd-units-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let units = ["sidestepd.service", "sidestepd.socket"].map(|name| {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf").join(name);
        // Where it is installed there is nothing yet.
        let text = std::fs::read_to_string(from).unwrap();
        let here = text.replace("/usr/sbin/sidestepd", env!("CARGO_BIN_EXE_sidestepd"));
        std::fs::write(folder.join(name), here).unwrap();
        folder.join(name)
    });
    // Nor is the page that they name.
    let told = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output().unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    let said = String::from_utf8_lossy(&told.stderr);
    // Of other units of the host it may say what it likes.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("sidestepd")).collect();
    assert!(told.status.success() && ours.is_empty(), "{said}");
}
