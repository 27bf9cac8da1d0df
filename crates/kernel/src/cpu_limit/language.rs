//! How runtimes of languages make a number of threads of a CPU limit.

use crate::group::Limit;
use schedlab_base::{Error, Result};

/// A runtime that sizes its pool of threads, or tells programs how to.
pub struct LanguageRuntime {
    pub name: &'static str,
    /// The function whose answer it is.
    pub function: &'static str,
    pub rule: &'static str,
    /// Whose quota it reads, where groups that have one are nested; the kernel holds a task to every one.
    pub nested: &'static str,
    pub read_in: &'static str,
    /// Threads for a quota in CPUs.
    of_quota: fn(f64) -> u64,
}

/// The runtimes whose source was read.
pub const LANGUAGES: &[LanguageRuntime] = &[
    LanguageRuntime {
        name: "go-1.24",
        function: "runtime.GOMAXPROCS",
        rule: "the CPUs of the affinity mask, whatever the limit",
        nested: "-",
        read_in: "golang/go issue 73193",
        of_quota: |_| u64::MAX,
    },
    LanguageRuntime {
        name: "go-1.25",
        function: "runtime.GOMAXPROCS",
        rule: "rounded up, at least 2",
        nested: "its own group's",
        read_in: "src/runtime/cgroup_linux.go",
        of_quota: |cpus| (cpus.ceil() as u64).max(2),
    },
    LanguageRuntime {
        name: "automaxprocs",
        function: "maxprocs.Set",
        rule: "rounded down, at least 1",
        nested: "its own group's",
        read_in: "go.uber.org/automaxprocs 1.6.0, internal/runtime",
        of_quota: |cpus| (cpus.floor() as u64).max(1),
    },
    LanguageRuntime {
        name: "jvm",
        function: "Runtime.availableProcessors",
        rule: "rounded up",
        nested: "the tightest",
        read_in: "openjdk/jdk, cgroupUtil_linux.cpp",
        of_quota: |cpus| (cpus.ceil() as u64).max(1),
    },
    LanguageRuntime {
        name: "dotnet",
        function: "Environment.ProcessorCount",
        rule: "rounded up, at least 1",
        nested: "its own group's",
        read_in: "dotnet/runtime, pal/src/misc/cgroup.cpp",
        of_quota: |cpus| (cpus.ceil() as u64).max(1),
    },
    LanguageRuntime {
        name: "rust",
        function: "std::thread::available_parallelism",
        rule: "rounded down, at least 1",
        nested: "the tightest",
        read_in: "rust-lang/rust, std/src/sys/thread/unix.rs",
        of_quota: |cpus| (cpus.floor() as u64).max(1),
    },
    LanguageRuntime {
        name: "libuv-1.51",
        function: "uv_available_parallelism (Node: os.availableParallelism)",
        rule: "rounded down, at least 1",
        nested: "the outermost",
        read_in: "libuv 1.51.0 and 1.52.1, under cgroup v2; up to 1.48 the affinity mask alone",
        of_quota: |cpus| (cpus.floor() as u64).max(1),
    },
    LanguageRuntime {
        name: "python-3.14",
        function: "os.process_cpu_count",
        rule: "the CPUs of the affinity mask, whatever the limit",
        nested: "-",
        read_in: "python/cpython issue 149452",
        of_quota: |_| u64::MAX,
    },
];

impl LanguageRuntime {
    /// Finds one by name.
    ///
    /// # Errors
    /// When it is unknown.
    pub fn find(name: &str) -> Result<&'static LanguageRuntime> {
        let found = LANGUAGES.iter().find(|l| l.name == name);
        found.ok_or_else(|| Error::unknown("language runtime", name, LANGUAGES.iter().map(|l| l.name)))
    }
    /// Threads under a limit on a machine of so many CPUs.
    pub fn threads(&self, limit: &Limit, cpus: u64) -> u64 {
        let quota = limit.quota.map(|quota| quota.0 as f64 / limit.period.0 as f64);
        quota.map_or(u64::MAX, self.of_quota).min(cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_limit::limit;

    #[test]
    fn runtimes_round_in_their_own_ways() {
        let threads =
            |name: &str, text: &str| LanguageRuntime::find(name).unwrap().threads(&limit(text).unwrap(), 8);
        let all = |text: &str| {
            ["go-1.24", "go-1.25", "automaxprocs", "jvm", "dotnet", "rust"].map(|n| threads(n, text))
        };
        assert_eq!(all("2500m"), [8, 3, 2, 3, 3, 2]);
        assert_eq!(all("500m"), [8, 2, 1, 1, 1, 1]);
        assert_eq!(all("none"), [8; 6]);
        assert_eq!(all("20"), [8; 6], "there are never more than CPUs");
        assert!(LanguageRuntime::find("go-1.26").is_err());
    }
}
