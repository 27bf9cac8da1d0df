//! Runs on the running kernel, one check at a time in a process with one thread, since workloads fork.
//!
//! This executable is also its own agent, so it has its own main.

mod agent;
mod channels;
mod engine;
mod single;

use schedlab_native::agent_main;
use std::process::ExitCode;

/// A module's checks by name.
macro_rules! checks {
    ($module:ident: $($name:ident),* $(,)?) => {
        [$((concat!(stringify!($module), "::", stringify!($name)), $module::$name as fn())),*]
    };
}

const AGENT: &[single::Check] = &checks! { agent:
    processes_share_words_and_cells_and_nothing_else,
    processes_have_their_pages_before_the_start,
    processes_end_when_the_run_does,
    a_process_that_dies_fails_the_run,
    a_failing_process_is_named,
    schbench_has_samples_in_microseconds,
    events_show_the_waits_of_schbench,
    a_stop_ends_it_with_a_partial_outcome,
    an_agents_error_comes_back_as_it_was,
    an_agent_that_dies_is_reported,
    a_missing_agent_is_reported,
    the_slice_test_reads_the_usage_of_processes,
    no_job_is_an_input_error,
    a_variants_attributes_reach_tasks_and_commands,
};
const CHANNELS: &[single::Check] = &checks! { channels:
    requests_and_answers_arrive_whole,
    many_senders_share_one_channel,
    a_full_channel_blocks_until_it_is_read,
    the_end_reaches_tasks_that_wait_for_a_channel,
    a_lost_datagram_is_reported_and_hangs_nobody,
    the_soft_limit_of_files_is_raised,
    the_hard_limit_of_files_is_named,
    touching_takes_cpu_time,
    timer_slack_is_set_and_not_inherited,
};
const ENGINE: &[single::Check] = &checks! { engine:
    a_wait_ends_by_time_out_or_does_not_begin,
    a_wake_counts_whom_it_woke,
    computing_takes_cpu_time_and_sleeping_takes_wall_time,
    attributes_names_and_cpus_are_the_kernels,
    cpus_that_are_not_there_are_named,
    a_failing_task_ends_the_run_and_is_named,
    the_end_reaches_tasks_in_every_kind_of_sleep,
    a_stop_ends_a_run_with_what_it_has,
    nothing_of_the_warm_up_is_measured,
    a_workload_that_is_cut_off_before_its_end_warns,
    no_wakeup_is_lost_in_rings_small_and_large,
    ten_thousand_tasks_start_and_end,
    the_controller_rests_before_tasks_whose_beginning_is_measured,
    a_panicking_program_is_named,
    a_task_can_be_spawned_once,
    the_mean_stay_of_spinning_tasks_is_their_time_over_their_switches,
    tasks_that_switch_too_often_are_not_recorded_with_a_reason,
    tasks_spin_for_a_lock_and_one_holds_it,
    parallel_parts_end_with_the_workload,
};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("agent") => match agent_main() {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("{e}");
                ExitCode::from(e.kind().exit_code())
            }
        },
        Some(channels::MANY_CHANNELS) => {
            channels::many_channels();
            ExitCode::SUCCESS
        }
        _ => single::run_all(&[AGENT, CHANNELS, ENGINE].concat(), &args),
    }
}
