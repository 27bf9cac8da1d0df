//! The reader of published figures: values that are shown beside ours, and changes that ours are held against.

use super::keys;
use super::lists::{number, strings_of};
use super::model::{Experiment, Load};
use schedlab_base::{Error, Ns, Result};
use schedlab_compare::published::MECHANISMS;
use schedlab_kernel::Variant;
use schedlab_machine::reader::Table;
use schedlab_record::{PostedSeries, Published, PublishedChange, PublishedChanges};

/// The values: `[[published]]` without changes. `metrics` are those that the experiment shows.
pub(super) fn figures(top: &Table<'_>, variants: &[Variant], metrics: &[String]) -> Result<Vec<Published>> {
    let one = |t: &Table<'_>| -> Result<Published> {
        let (variant, metric) = (text(t, "variant")?, text(t, "metric")?);
        if !variants.iter().any(|v| v.name == variant) {
            let known = variants.iter().map(|v| v.name.as_str());
            return Err(t.place("variant", Error::unknown("variant", &variant, known)));
        }
        if !metrics.contains(&metric) {
            let known = metrics.iter().map(String::as_str);
            return Err(t.place("metric", Error::unknown("metric of this experiment", &metric, known)));
        }
        if let Some(key) = ["machine", "not_modelled"].into_iter().find(|key| t.get(key).is_some()) {
            return Err(t.error_at(key, format!("{key} is for changes, and this figure is a value")));
        }
        let value = t.required("value", t.get("value"))?;
        let unit = t.string("unit")?;
        let (value, unit) = match (value.get_ref().as_str(), number(value)) {
            (Some(text), _) => (Ns::parse(text, "").map_err(|e| t.place("value", e))?.0 as f64, "ns"),
            (None, Some(n)) => (n, unit.unwrap_or("")),
            _ => return Err(t.error_at("value", "value is a number, or a time such as \"4.68ms\"")),
        };
        let load = t.string("load")?.map(str::to_owned);
        let source = t.string("source")?.unwrap_or_default().to_owned();
        Ok(Published { variant, metric, load, value, unit: unit.to_owned(), source })
    };
    tables(top, false)?.iter().map(one).collect()
}

/// The changes: `[[published]]` with changes. Whether their loads and metrics are there is checked when they are
/// judged: they are those of the part that runs.
pub(super) fn changes(top: &Table<'_>) -> Result<Vec<PublishedChanges>> {
    let one = |t: &Table<'_>| -> Result<PublishedChanges> {
        if let Some(key) = ["value", "unit", "load"].into_iter().find(|key| t.get(key).is_some()) {
            return Err(t.error_at(key, format!("{key} is for a value, and these figures are changes")));
        }
        Ok(PublishedChanges {
            variant: text(t, "variant")?,
            metric: text(t, "metric")?,
            machines: strings_of(t, "machine")?,
            source: t.string("source")?.unwrap_or_default().to_owned(),
            not_modelled: t.string("not_modelled")?.map(str::to_owned),
            changes: by_load(t)?,
        })
    };
    tables(top, true)?.iter().map(one).collect()
}

/// `[series]`.
pub(super) fn series(top: &Table<'_>) -> Result<Option<PostedSeries>> {
    let Some(t) = top.table("series", &keys::SERIES.names())? else { return Ok(None) };
    let (title, posted) = (text(&t, "title")?, text(&t, "posted")?);
    Ok(Some(PostedSeries {
        title,
        posted,
        mechanisms: strings_of(&t, "mechanisms")?,
        quick: strings_of(&t, "quick")?,
    }))
}

fn text(t: &Table<'_>, key: &str) -> Result<String> {
    Ok(t.required(key, t.string(key)?)?.to_owned())
}

fn tables<'t>(top: &Table<'t>, of_changes: bool) -> Result<Vec<Table<'t>>> {
    let mut all = top.tables("published", &keys::PUBLISHED.names())?;
    all.retain(|t| t.get("changes").is_some() == of_changes);
    Ok(all)
}

/// Each load's figures: a number, or a list of the change and two deviations.
fn by_load(t: &Table<'_>) -> Result<Vec<PublishedChange>> {
    let wrong = |load: &str| {
        let text =
            format!("the change of '{load}' is a number, or [change, deviation, deviation]; each in %");
        t.error_at("changes", text)
    };
    let Some(loads) = t.open_table("changes")? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for load in loads.keys() {
        let Some(value) = loads.get(load) else { continue };
        let listed =
            value.get_ref().as_array().map(|list| list.iter().map(number).collect::<Option<Vec<f64>>>());
        let figures = listed.unwrap_or_else(|| number(value).map(|n| vec![n])).ok_or_else(|| wrong(load))?;
        let (change_pct, deviations_pct) = match figures[..] {
            [change] => (change, None),
            [change, base, variant] => (change, Some([base, variant])),
            _ => return Err(wrong(load)),
        };
        let deviates = deviations_pct.is_none_or(|both| both.iter().all(|d| *d >= 0.0));
        if change_pct <= -100.0 || !deviates {
            return Err(wrong(load).help("a change is above -100 %, a deviation is at least 0"));
        }
        all.push(PublishedChange { load: load.to_owned(), change_pct, deviations_pct });
    }
    Ok(all)
}

impl Experiment {
    /// The series of an experiment, whose modelled changes all have their load, metric and variant in it.
    ///
    /// # Errors
    /// When it is not a series, or a change has none of these.
    pub fn checked_series(&self) -> Result<&PostedSeries> {
        let wrong = |text: String| Error::input(text).context(self.file.display());
        let series = self.series.as_ref().ok_or_else(|| {
            wrong("the experiment is not a posted series".to_owned())
                .help("[series] with title and posted, and [[published]] with changes (docs/formats.md)")
        })?;
        let known = || MECHANISMS.iter().map(|(name, _)| *name);
        if let Some(name) = series.mechanisms.iter().find(|name| known().all(|k| k != **name)) {
            return Err(Error::unknown("mechanism", name, known()).context(self.file.display()));
        }
        for table in self.changes.iter().filter(|table| table.not_modelled.is_none()) {
            if !self.variants.iter().any(|v| v.name == table.variant) {
                let known = self.variants.iter().map(|v| v.name.as_str());
                return Err(Error::unknown("variant", &table.variant, known).context(self.file.display()));
            }
            if table.machines.is_empty() {
                return Err(wrong(format!("published changes of {}: the machine is missing", table.metric)));
            }
            for (machine, change) in
                table.machines.iter().flat_map(|m| table.changes.iter().map(move |c| (m, c)))
            {
                let on = |l: &&Load| self.machines[l.machine].name == *machine && l.name == change.load;
                let shows = |l: &Load| {
                    let metrics = if l.metrics.is_empty() { &self.metrics } else { &l.metrics };
                    metrics.contains(&table.metric)
                };
                if !self.loads.iter().filter(on).any(shows) {
                    let what = format!("load '{}' on {machine} with metric {}", change.load, table.metric);
                    return Err(wrong(format!(
                        "a published change is of {what}, and the experiment has none"
                    )));
                }
            }
        }
        let strange = series.quick.iter().find(|name| !self.loads.iter().any(|l| l.name == **name));
        match strange {
            Some(name) => {
                let known = self.loads.iter().map(|l| l.name.as_str());
                Err(Error::unknown("quick load", name, known).context(self.file.display()))
            }
            None => Ok(series),
        }
    }
}
