//! The C programs of tests/apps, which check themselves: first on the kernel alone, which must pass (the oracle), then
//! under the library.

mod common;

use common::{command, compile, library, succeeds};

fn alike(source: &str, more: &[&str]) {
    let program = compile(source, more);
    for preload in [false, true] {
        succeeds(command(&program, preload));
    }
}

#[test]
fn the_hooks_stand_before_libc() {
    let program = compile("present", &["-ldl"]);
    for preload in [false, true] {
        let said = String::from_utf8(succeeds(command(&program, preload)).stdout).unwrap();
        assert_eq!(said.contains("libvma.so"), preload, "{said}");
    }
}

#[test]
fn the_extra_api_has_the_layout_of_its_header_and_is_found_in_both_ways() {
    let program = compile("extra_layout", &["-ldl"]);
    for (preload, said) in [(false, "absent\n"), (true, "there\n")] {
        assert_eq!(String::from_utf8(succeeds(command(&program, preload)).stdout).unwrap(), said);
    }
}

#[test]
fn variadic_calls_get_their_third_argument() {
    alike("variadics", &[]);
}

#[test]
fn a_thread_blocked_in_a_hooked_call_can_be_cancelled() {
    alike("cancel", &[]);
}

#[test]
fn a_handler_may_jump_out_of_a_blocked_recv() {
    alike("longjmp", &[]);
}

#[test]
fn a_vfork_child_does_not_touch_its_parents_sockets() {
    alike("vfork", &[]);
}

#[test]
fn signals_are_delivered_queried_and_restarted_as_without_us() {
    alike("signals", &[]);
}

#[test]
fn handlers_may_use_sockets_and_jump_at_any_moment() {
    alike("storm", &[]);
}

#[test]
fn forks_work_while_threads_hammer_the_hooks() {
    alike("forks", &[]);
}

#[test]
fn a_process_may_end_while_its_threads_are_in_hooks() {
    let program = compile("forks", &[]);
    for _ in 0..3 {
        let mut run = command(&program, true);
        run.arg("abruptly");
        succeeds(run);
    }
}

#[test]
fn timeouts_of_all_waits_keep_their_unit() {
    alike("waits", &[]);
}

#[test]
fn descriptors_are_made_passed_and_closed_as_without_us() {
    alike("descriptors", &[]);
}

#[test]
fn fortified_calls_work_and_still_stop_overflows() {
    alike("fortified", &["-O2", "-D_FORTIFY_SOURCE=2"]);
}

#[test]
fn sockets_work_in_constructors_that_run_before_ours() {
    let early = compile("early_library", &["-shared", "-fPIC"]);
    alike("early", &[early.to_str().unwrap()]);
}

#[test]
fn a_thread_that_a_later_destructor_waits_for_goes_on() {
    let late = compile("late_library", &["-shared", "-fPIC", "-pthread"]);
    alike("late", &[late.to_str().unwrap()]);
}

#[test]
fn an_allocator_that_prepares_itself_does_not_wait_for_dlsym() {
    alike("allocator", &["-rdynamic"]);
}

#[test]
fn the_library_can_be_opened_and_closed_at_run_time() {
    let program = compile("dlopen", &["-ldl"]);
    let mut run = command(program, false);
    run.arg(library());
    succeeds(run);
}
