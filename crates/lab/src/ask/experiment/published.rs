//! The reader of published figures: values that are shown beside ours, and figures of posted series, which ours are
//! held against.

use super::keys;
use super::lists::{number, strings_of};
use super::model::{Experiment, Load};
use schedlab_base::{Error, Ns, Result};
use schedlab_compare::published::MECHANISMS;
use schedlab_kernel::Variant;
use schedlab_machine::reader::{Table, Value};
use schedlab_record::{PostedFigure, PostedFigures, PostedSeries, Published};

/// The values that are shown beside ours: `[[published]]` with neither changes nor values by load. `metrics` are those
/// that the experiment shows.
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
        let (value, is_time) = value(t, "value", t.required("value", t.get("value"))?)?;
        let unit = if is_time { "ns" } else { t.string("unit")?.unwrap_or("") };
        let load = t.string("load")?.map(str::to_owned);
        let source = t.string("source")?.unwrap_or_default().to_owned();
        Ok(Published { variant, metric, load, value, unit: unit.to_owned(), source })
    };
    tables(top, false)?.iter().map(one).collect()
}

/// A value, and whether it is a time.
fn value(t: &Table<'_>, key: &str, value: &Value) -> Result<(f64, bool)> {
    match (value.get_ref().as_str(), number(value)) {
        (Some(text), _) => Ok((Ns::parse(text, "").map_err(|e| t.place(key, e))?.0 as f64, true)),
        (None, Some(n)) => Ok((n, false)),
        _ => Err(t.error_at(key, "value is a number, or a time such as \"4.68ms\"")),
    }
}

/// The figures of a posted series: `[[published]]` with changes or values by load. Whether their loads and metrics are
/// there is checked when they are judged: they are those of the part that runs.
pub(super) fn posted(top: &Table<'_>) -> Result<Vec<PostedFigures>> {
    let one = |t: &Table<'_>| -> Result<PostedFigures> {
        if let Some(key) = ["value", "unit", "load"].into_iter().find(|key| t.get(key).is_some()) {
            return Err(t.error_at(key, format!("{key} is for a value, and these figures are by load")));
        }
        if t.get("changes").is_some() && t.get("values").is_some() {
            return Err(t.error_at("values", "changes and values are two tables"));
        }
        let mut figures = by_load(t, "changes", change)?;
        figures.extend(by_load(t, "values", posted_value)?);
        Ok(PostedFigures {
            variant: text(t, "variant")?,
            metric: text(t, "metric")?,
            machines: strings_of(t, "machine")?,
            source: t.string("source")?.unwrap_or_default().to_owned(),
            not_modelled: t.string("not_modelled")?.map(str::to_owned),
            figures,
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

fn tables<'t>(top: &Table<'t>, by_load: bool) -> Result<Vec<Table<'t>>> {
    let mut all = top.tables("published", &keys::PUBLISHED.names())?;
    let has = |t: &Table<'_>| ["changes", "values"].iter().any(|key| t.get(key).is_some());
    all.retain(|t| has(t) == by_load);
    Ok(all)
}

type ReadFigure = fn(&Table<'_>, &str, &Value) -> Result<PostedFigure>;

fn by_load(t: &Table<'_>, key: &str, read: ReadFigure) -> Result<Vec<(String, PostedFigure)>> {
    let Some(loads) = t.open_table(key)? else { return Ok(Vec::new()) };
    let one = |load: &str| Some(read(t, load, loads.get(load)?).map(|figure| (load.to_owned(), figure)));
    loads.keys().filter_map(one).collect()
}

/// A number, or a list of the change and two deviations.
fn change(t: &Table<'_>, load: &str, value: &Value) -> Result<PostedFigure> {
    let wrong = || {
        let text =
            format!("the change of '{load}' is a number, or [change, deviation, deviation]; each in %");
        t.error_at("changes", text)
    };
    let listed = value.get_ref().as_array().map(|list| list.iter().map(number).collect::<Option<Vec<f64>>>());
    let figures = listed.unwrap_or_else(|| number(value).map(|n| vec![n])).ok_or_else(wrong)?;
    let (pct, deviations_pct) = match figures[..] {
        [change] => (change, None),
        [change, base, variant] => (change, Some([base, variant])),
        _ => return Err(wrong()),
    };
    let deviates = deviations_pct.is_none_or(|both| both.iter().all(|d| *d >= 0.0));
    if pct <= -100.0 || !deviates {
        return Err(wrong().help("a change is above -100 %, a deviation is at least 0"));
    }
    Ok(PostedFigure::Change { pct, deviations_pct })
}

/// A number above 0 or a time.
fn posted_value(t: &Table<'_>, load: &str, found: &Value) -> Result<PostedFigure> {
    let (n, _) = value(t, "values", found)?;
    let wrong = || t.error_at("values", format!("the value of '{load}' is above 0"));
    (n > 0.0).then_some(PostedFigure::Value(n)).ok_or_else(wrong)
}

impl Experiment {
    /// The series of an experiment, whose modelled figures all have their load, metric and variant in it.
    ///
    /// # Errors
    /// When it is not a series, or a figure has none of these.
    pub fn checked_series(&self) -> Result<&PostedSeries> {
        let wrong = |text: String| Error::input(text).context(self.file.display());
        let series = self.series.as_ref().ok_or_else(|| {
            wrong("the experiment is not a posted series".to_owned()).help(
                "[series] with title and posted, and [[published]] with changes or values (docs/formats.md)",
            )
        })?;
        let known = || MECHANISMS.iter().map(|mechanism| mechanism.name);
        if let Some(name) = series.mechanisms.iter().find(|name| known().all(|k| k != **name)) {
            return Err(Error::unknown("mechanism", name, known()).context(self.file.display()));
        }
        for table in self.posted.iter().filter(|table| table.not_modelled.is_none()) {
            if !self.variants.iter().any(|v| v.name == table.variant) {
                let known = self.variants.iter().map(|v| v.name.as_str());
                return Err(Error::unknown("variant", &table.variant, known).context(self.file.display()));
            }
            if table.machines.is_empty() {
                return Err(wrong(format!("published figures of {}: the machine is missing", table.metric)));
            }
            for (machine, (load, _)) in
                table.machines.iter().flat_map(|m| table.figures.iter().map(move |f| (m, f)))
            {
                let on = |l: &&Load| self.machines[l.machine].name == *machine && l.name == *load;
                let shows = |l: &Load| {
                    let metrics = if l.metrics.is_empty() { &self.metrics } else { &l.metrics };
                    metrics.contains(&table.metric)
                };
                if !self.loads.iter().filter(on).any(shows) {
                    let what = format!("load '{load}' on {machine} with metric {}", table.metric);
                    return Err(wrong(format!(
                        "a published figure is of {what}, and the experiment has none"
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
