//! What values of a posted series are made of, as hashes: no kernel is built for them.
//!
//! A cell's own hash has its image's key, with compiler and release of the source. Kept values outlive these: the
//! engine's version and these hashes say whether they are still of the same question.

use super::builds;
use super::experiment::Experiment;
use schedlab_base::{Error, Result, content_hash};
use schedlab_compare::published::MadeOf;
use schedlab_kernel::{Level, Variant};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Digits of a hash.
const DIGITS: usize = 12;

impl Experiment {
    /// What the values of each machine and load are made of: the machine as simulated, the workload with its
    /// parameters, and each variant's kernel, patches, configuration and settings. The level is not part of it.
    ///
    /// # Errors
    /// When a patch or a fragment can't be read.
    pub fn made_of(&self) -> Result<BTreeMap<[String; 2], MadeOf>> {
        let machines: Vec<String> =
            self.machines_as_run().iter().map(|machine| hash(json!(**machine))).collect();
        let of = |v: &Variant| Ok((v.name.clone(), self.hash_of_variant(v).map_err(|e| e.context(&v.name))?));
        let variants = self.variants.iter().map(of).collect::<Result<BTreeMap<_, _>>>()?;
        let mut all = BTreeMap::new();
        for load in &self.loads {
            // Loads of several workloads may share a name.
            let namesakes = self.loads.iter().filter(|l| (l.machine, &l.name) == (load.machine, &load.name));
            let specs = namesakes.map(|l| l.spec.to_json()).collect::<serde_json::Result<Vec<_>>>();
            let specs = specs.map_err(|e| Error::internal(format!("workload as JSON: {e}")))?;
            let machine = machines[load.machine].clone();
            let made_of = MadeOf { machine, load: hash(json!(specs)), variants: variants.clone() };
            all.insert([self.machines[load.machine].name.clone(), load.name.clone()], made_of);
        }
        Ok(all)
    }
    fn hash_of_variant(&self, variant: &Variant) -> Result<String> {
        let patches = builds::patches(&variant.patch, &variant.kernel, self.folder())?;
        let fragment = builds::fragment(variant.config.as_deref(), self.folder())?;
        // The text counts, under whatever name.
        let settings = Variant {
            name: String::new(),
            patch: patches.iter().map(schedlab_kernels::diff::Patch::hash).collect(),
            config: fragment.map(|(_, text)| text),
            level: Level::default(),
            ..variant.clone()
        };
        Ok(hash(json!(settings)))
    }
}

/// The hash of JSON, whose keys are sorted, without what is for readers: prose, and names of files whose text is there.
fn hash(mut of: Value) -> String {
    without(&mut of, &["about", "provenance", "file"]);
    content_hash(of.to_string().as_bytes())[..DIGITS].to_owned()
}

fn without(of: &mut Value, names: &[&str]) {
    match of {
        Value::Object(map) => {
            map.retain(|name, _| !names.contains(&name.as_str()));
            map.values_mut().for_each(|value| without(value, names));
        }
        Value::Array(all) => all.iter_mut().for_each(|value| without(value, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::experiment::parse;

    const TEXT: &str = r#"
name = "s"
machine = "smp-2"
[[variant]]
name = "off"
kernel = "6.1"
[[variant]]
name = "on"
kernel = "6.1"
patch = ["mine.patch"]
config = "fragment"
[[workload]]
name = "hackbench"
groups = 1
[[load]]
name = "l"
loops = 100
"#;
    const PATCH: &str = "--- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n@@ -1 +1 @@\n-a\n+b\n";

    /// What the only load is made of, in a folder with this patch and fragment.
    fn made_of(text: &str, patch: &str, fragment: &str, change: impl Fn(&mut Experiment)) -> MadeOf {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.patch"), patch).unwrap();
        std::fs::write(folder.path().join("fragment"), fragment).unwrap();
        let mut experiment = parse(&folder.path().join("s.toml"), text, 4).unwrap();
        change(&mut experiment);
        let mut all = experiment.made_of().unwrap();
        all.pop_first().map(|(_, made)| made).unwrap()
    }

    #[test]
    fn only_what_makes_the_values_is_in_the_hashes() {
        let usual = |text: &str| made_of(text, PATCH, "CONFIG_X=y\n", |_| ());
        let base = usual(TEXT);
        assert_eq!(base.variants.len(), 2);
        assert_eq!(
            base,
            usual(&TEXT.replace("loops = 100", "loops = 100 # as posted")),
            "and another folder"
        );
        assert_eq!(base, usual(&TEXT.replace("name = \"s\"", "name = \"t\"\nruns = 9\nseed = 7")));
        let described = |e: &mut Experiment| {
            e.machines[0].about = "other words".into();
            e.machines[0].provenance.clear();
            e.variants.iter_mut().for_each(|v| v.level = Level::Woven);
        };
        assert_eq!(base, made_of(TEXT, PATCH, "CONFIG_X=y\n", described));
        let in_a_mail = format!("Subject: another\n\n{PATCH}");
        assert_eq!(base, made_of(TEXT, &in_a_mail, "CONFIG_X=y\n", |_| ()));

        let dearer = |e: &mut Experiment| e.machines[0].costs.line_remote_ns += 1;
        let changed = |now: MadeOf| base.changed(&now);
        assert_eq!(changed(made_of(TEXT, PATCH, "CONFIG_X=y\n", dearer)), ["machine"]);
        assert_eq!(changed(usual(&TEXT.replace("loops = 100", "loops = 101"))), ["load"]);
        assert_eq!(
            changed(made_of(TEXT, &PATCH.replace("+b", "+c"), "CONFIG_X=y\n", |_| ())),
            ["variant on"]
        );
        assert_eq!(changed(made_of(TEXT, PATCH, "CONFIG_X=n\n", |_| ())), ["variant on"]);
        let switched =
            TEXT.replacen("kernel = \"6.1\"", "kernel = \"6.1\"\nfeatures = [\"NO_TTWU_QUEUE\"]", 1);
        assert_eq!(changed(usual(&switched)), ["variant off"]);
    }
}
