//! A run of a benchmark on an image, for trying out: `code SERIES MACHINE BENCHMARK [KEY=VALUE...]`.
use schedlab_kernels::{Listener, Source, Step, cache, code};
use schedlab_machine::Machine;
use schedlab_record::{Analyser, Better, Series, TaskName};
use schedlab_workload::{Params, Spec};
use std::sync::atomic::AtomicBool;
struct Say;
impl Listener for Say {
    fn say(&mut self, text: &str) {
        eprintln!("{text}");
    }
    fn step(&mut self, _: &Step) {}
}
struct Tee<'a>(&'a mut Analyser, u64);
impl schedlab_trace::Sink for Tee<'_> {
    fn event(&mut self, e: &schedlab_trace::Event) {
        if self.1 > 0 {
            self.1 -= 1;
            eprintln!("{:>10} {} {:?}", e.at.0, e.cpu, e.kind);
        }
        self.0.event(e)
    }
    fn sample(&mut self, at: schedlab_base::Ns, task: schedlab_base::TaskId, series: u16, value: u64) {
        self.0.sample(at, task, series, value)
    }
}
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let run = || -> schedlab_base::Result<()> {
        let recipe = code::CodeRecipe { source: Source::parse(&args[0])?, patches: vec![], fragment: None };
        let made = code::build(
            &recipe,
            schedlab_transplant::shim::OVERLAY,
            &cache::folder(None)?,
            &AtomicBool::new(false),
            &mut Say,
        )?;
        let machine = Machine::load(&args[1])?;
        let params = args[3..]
            .iter()
            .filter_map(|a| a.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.parse().unwrap()))
            .collect();
        let workload = Spec::bench(&args[2], &Params(params))?.build(1)?;
        let names = workload
            .tasks
            .iter()
            .map(|t| TaskName { name: t.name.clone(), background: t.background })
            .collect();
        let series = workload
            .series
            .iter()
            .map(|s| Ok((s.name.clone(), Series::new(&s.unit, Better::parse(&s.better)?))))
            .collect::<schedlab_base::Result<Vec<_>>>()?;
        let mut analyser =
            Analyser::new(machine.topology.nr_cpus(), names, series, workload.warmup).on(&machine.topology);
        if std::env::var("DOMAINS").is_ok() {
            let mut k = schedlab_transplant::Kernel::boot(&made.image.object, &machine, 1, 10_000_000_000)?;
            for c in [0, 1, 100] {
                eprintln!("{c}: {}", k.image().domains(c.min(machine.topology.nr_cpus() - 1)));
            }
            for f in k.image().features() {
                eprint!("{f:?} ");
            }
            for f in k.image().tunables() {
                eprint!("{f:?} ");
            }
            return Ok(());
        }
        let t = std::time::Instant::now();
        let setup = schedlab_transplant::Setup {
            machine: &machine,
            object: &made.image.object,
            history: schedlab_kernel::History::of(schedlab_base::Version::parse("v6.1")?),
            preempt: schedlab_kernel::preempt::Preempt::Voluntary,
            settings: vec![],
            changes: vec![],
            workload,
            seed: 1,
            background: false,
            stop: None,
            clock: None,
        };
        let report = schedlab_transplant::simulate(
            setup,
            &mut Tee(&mut analyser, std::env::var("EVENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(0)),
        )?;
        eprintln!(
            "{:?}: {} steps, {} wakeups, end {}",
            t.elapsed(),
            report.events,
            report.wakeups,
            report.end
        );
        let mut found = analyser.finish(report.end);
        found.add(report.found);
        for (k, v) in &found.counters {
            println!("{k} {v}");
        }
        for (k, v) in &found.series {
            println!("{k} n {} mean {:?}", v.count(), v.mean());
        }
        for w in &found.warnings {
            println!("{}", w.message);
        }
        Ok(())
    };
    if let Err(e) = run() {
        eprintln!("{e}");
        std::process::exit(1)
    }
}
