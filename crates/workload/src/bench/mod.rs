//! The benchmarks: a file and a row for each.

use crate::param::Benchmark;

mod batch;
mod database;
mod draws;
mod embedded_db;
mod exchange;
mod forks;
mod gate;
mod hackbench;
mod hogs;
mod http;
mod inbox;
mod log;
mod mutex;
mod nanosleep;
mod oltp;
mod pace;
mod params;
mod pipe;
mod pool;
mod rr;
mod sample;
mod schbench;
mod schbench_modern;
mod slice;
mod stream_rr;
mod trade;
mod volano;
mod wake_list;
mod worker_pool;

pub use params::{MODE, PROCESSES, THREADS};

pub const BENCHMARKS: &[&Benchmark] = &[
    &schbench::SCHBENCH,
    &schbench_modern::SCHBENCH_MODERN,
    &nanosleep::NANOSLEEP,
    &hackbench::HACKBENCH,
    &pipe::PIPE,
    &rr::RR,
    &stream_rr::STREAM_RR,
    &embedded_db::EMBEDDED_DB,
    &slice::SLICE,
    &batch::BATCH,
    &hogs::HOGS,
    &http::HTTP,
    &oltp::OLTP,
    &worker_pool::POOL,
    &database::DATABASE,
    &volano::VOLANO,
    &trade::TRADE,
    &forks::FORKS,
];
