//! A set of features as records have it: the names of those that are on, in the order of the table.
//!
//! Records of 0.1 and 0.2 have a number instead, with one bit for each feature. [`BITS`] is the order of
//! these bits and never changes: the table's rows may stand in any order, and later features have no bit.
//! Such records are read.

use crate::feature::Feature::{self, *};
use crate::feature::{FEATURES, FeatureSet};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The features that have a bit in numbers of 0.1 and 0.2, lowest bit first.
#[rustfmt::skip]
const BITS: &[Feature] = &[
    GentleFairSleepers, StartDebit, WakeupPreemption, NextBuddy, LastBuddy, CacheHotBuddy, LbBias,
    TtwuQueue, AltPeriod, BaseSlice, WaIdle, WaWeight, WaBias, SisGroup, SisFirstIdle, SisCore,
    SisSkipTarget, SisProp, SisUtil, SdSharedAll, SdNrGroups, IlbSnapshot, IlbUtil, IlbFast, LbSgScan,
    IlbUtilQuad, IlbShare, SdSharedNuma, UtilEst, NewFairSleepers, NormalizedSleeper, AdaptiveGran,
    AsymGran, WakeupOverlap, AffineWakeups, Hrtick, PlaceLag, PlaceDeadlineInitial, PlaceRelDeadline,
    RunToParity, PreemptShort, PickBuddy, DelayDequeue, DelayZero, PreemptLazy, NiRandom, NiRate,
    SisWakeIdle, VcpuPack,
];

impl FeatureSet {
    /// The set of a number in records of 0.1 and 0.2; `None` if a bit is no feature's.
    fn of_number(number: u64) -> Option<FeatureSet> {
        let on = BITS.iter().enumerate().filter(|(at, _)| number >> at & 1 == 1).map(|(_, f)| *f);
        (number.checked_shr(BITS.len() as u32).unwrap_or(0) == 0).then(|| on.collect())
    }
}

impl Serialize for FeatureSet {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.iter().map(Feature::name))
    }
}

impl<'de> Deserialize<'de> for FeatureSet {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<FeatureSet, D::Error> {
        d.deserialize_any(NamesOrNumber)
    }
}

struct NamesOrNumber;

impl<'de> Visitor<'de> for NamesOrNumber {
    type Value = FeatureSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names of features")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<FeatureSet, A::Error> {
        let mut on = Vec::new();
        while let Some(name) = names.next_element::<String>()? {
            let known = FEATURES.iter().find(|row| row.name == name);
            // A feature of a later version; its effect is not known here.
            let row = known.ok_or_else(|| A::Error::custom(format!("unknown feature '{name}'")))?;
            on.push(row.feature);
        }
        Ok(on.into_iter().collect())
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<FeatureSet, E> {
        FeatureSet::of_number(number).ok_or_else(|| E::custom(format!("{number} is not a set of features")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let of_0_2 = |v| FeatureSet::defaults(v).iter().filter(|f| BITS.contains(f)).collect::<FeatureSet>();
        let known = [Version::new(4, 5), Version::new(6, 5)].map(of_0_2);
        for set in [v45, known[0], known[1], FeatureSet::default(), all] {
            let names: Vec<&str> = set.iter().map(Feature::name).collect();
            assert_eq!(named(&names).unwrap(), set);
        }
        // As records of 0.2.0 have them.
        assert_eq!([73_975, 268_738_487].map(|number| numbered(number).unwrap()), known);
    }

    #[test]
    fn what_is_no_feature_is_refused() {
        assert!(named(&["LAST_BUDY"]).unwrap_err().to_string().contains("'LAST_BUDY'"));
        assert!(numbered(1 << 63).unwrap_err().to_string().contains("not a set of features"));
        let known: std::collections::BTreeSet<Feature> = BITS.iter().copied().collect();
        assert_eq!(known.len(), BITS.len(), "each has one bit");
    }
}
