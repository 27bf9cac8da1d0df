//! A set of features in records: the names of those that are on, in table order.
//!
//! Records of 0.1 and 0.2, which can still be read, have a number with one bit per feature. [`BITS`] is the order of
//! these bits and never changes: the table's rows may be reordered, and later features have no bit.

use crate::feature::Feature::{self, *};
use crate::feature::{FEATURES, FeatureSet};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The features with a bit in records of 0.1 and 0.2, lowest bit first.
#[rustfmt::skip]
const BITS: &[Feature] = &[
    GentleFairSleepers, StartDebit, WakeupPreemption, NextBuddy, LastBuddy, CacheHotBuddy, LbBias,
    TtwuQueue, AltPeriod, BaseSlice, WaIdle, WaWeight, WaBias, SisGroup, SisFirstIdle, SisCore,
    SisSkipTarget, SisProp, SisUtil, SdSharedAll, SdNrGroups, IlbSnapshot, IlbUtil, IlbFast, LbSgScan,
    IlbUtilQuad, IlbShare, SdSharedNuma, UtilEst, NewFairSleepers, NormalizedSleeper, AdaptiveGran,
    AsymGran, WakeupOverlap, AffineWakeups, Hrtick, PlaceLag, PlaceDeadlineInitial, PlaceRelDeadline,
    RunToParity, PreemptShort, PickBuddy, DelayDequeue, DelayZero,
];
/// The features with the bits after [`LAZY`]'s.
const BITS_AFTER_LAZY: &[Feature] = &[NiRandom, NiRate, SisWakeIdle, VcpuPack];

/// A feature up to 0.2 that is now a value of the tunable `preempt`. Its bit follows those of [`BITS`].
const LAZY: &str = "PREEMPT_LAZY";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    /// The features that still exist.
    pub on: FeatureSet,
    /// Whether the set has [`LAZY`].
    pub lazy: bool,
}

impl Stored {
    /// The set from a number in records of 0.1 and 0.2; `None` if a bit has no feature.
    fn of_number(number: u64) -> Option<Stored> {
        let bits =
            || BITS.iter().copied().map(Some).chain([None]).chain(BITS_AFTER_LAZY.iter().copied().map(Some));
        let set = || bits().enumerate().filter(|(at, _)| number >> at & 1 == 1).map(|(_, f)| f);
        let stored = Stored { on: set().flatten().collect(), lazy: set().any(|f| f.is_none()) };
        (number.checked_shr(bits().count() as u32).unwrap_or(0) == 0).then_some(stored)
    }
}

impl Serialize for FeatureSet {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.iter().map(Feature::name))
    }
}

impl<'de> Deserialize<'de> for FeatureSet {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<FeatureSet, D::Error> {
        Ok(Stored::deserialize(d)?.on)
    }
}

impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Stored, D::Error> {
        d.deserialize_any(NamesOrNumber)
    }
}

struct NamesOrNumber;

impl<'de> Visitor<'de> for NamesOrNumber {
    type Value = Stored;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names of features")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Stored, A::Error> {
        let (mut on, mut lazy) = (Vec::new(), false);
        while let Some(name) = names.next_element::<String>()? {
            if name == LAZY {
                lazy = true;
                continue;
            }
            let known = FEATURES.iter().find(|row| row.name == name);
            // A feature of a later version; its effect is not known.
            let row = known.ok_or_else(|| A::Error::custom(format!("unknown feature '{name}'")))?;
            on.push(row.feature);
        }
        Ok(Stored { on: on.into_iter().collect(), lazy })
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<Stored, E> {
        Stored::of_number(number).ok_or_else(|| E::custom(format!("{number} is not a set of features")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;
    use crate::preempt::Preempt;
    use schedlab_base::Version;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error as Refused, SeqDeserializer};

    fn named(names: &[&str]) -> Result<FeatureSet, Refused> {
        FeatureSet::deserialize(SeqDeserializer::new(names.iter().copied()))
    }
    fn numbered(number: u64) -> Result<FeatureSet, Refused> {
        FeatureSet::deserialize(number.into_deserializer())
    }

    #[test]
    fn names_and_the_number_of_0_2_are_the_same_set() {
        let all: FeatureSet = FEATURES.iter().map(|row| row.feature).collect();
        let v45 = FeatureSet::defaults(Version::new(4, 5));
        let had = |f: &Feature| BITS.contains(f) || BITS_AFTER_LAZY.contains(f);
        let of_0_2 = |v| FeatureSet::defaults(v).iter().filter(had).collect::<FeatureSet>();
        let known = [Version::new(4, 5), Version::new(6, 5)].map(of_0_2);
        for set in [v45, known[0], known[1], FeatureSet::default(), all] {
            let names: Vec<&str> = set.iter().map(Feature::name).collect();
            assert_eq!(named(&names).unwrap(), set);
        }
        // From records of 0.2.0.
        assert_eq!([73_975, 268_738_487].map(|number| numbered(number).unwrap()), known);
    }

    #[test]
    fn unknown_features_are_refused() {
        assert!(named(&["LAST_BUDY"]).unwrap_err().to_string().contains("'LAST_BUDY'"));
        assert!(numbered(1 << 63).unwrap_err().to_string().contains("not a set of features"));
        assert!(numbered(1 << 49).is_err() && numbered(1 << 48).is_ok(), "VCPU_PACK's bit is the last");
        let all = BITS.iter().chain(BITS_AFTER_LAZY);
        let known: std::collections::BTreeSet<Feature> = all.clone().copied().collect();
        assert_eq!(known.len(), all.count(), "each has one bit");
    }

    #[test]
    fn records_of_0_2_that_were_lazy_have_the_lazy_model() {
        let lazy = Stored::of_number(1 << 44).unwrap();
        assert!(lazy.lazy && lazy.on == FeatureSet::default());
        let kernel = Kernel::profile("v7.3").unwrap();
        let mut stored = serde_json::to_value(kernel).unwrap();
        assert_eq!(serde_json::from_value::<Kernel>(stored.clone()).unwrap(), kernel);
        stored["tunables"].as_object_mut().unwrap().remove("preempt");
        let read =
            |v: &serde_json::Value| serde_json::from_value::<Kernel>(v.clone()).unwrap().tunables.preempt;
        assert_eq!(read(&stored), Preempt::Voluntary as u64);
        stored["features"].as_array_mut().unwrap().push("PREEMPT_LAZY".into());
        assert_eq!(read(&stored), Preempt::Lazy as u64);
    }
}
