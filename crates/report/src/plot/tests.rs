//! Small plots: their SVG against a golden file, their PNG decoded; and which data become lines, panels and bars.

use super::*;
use schedlab_base::Backend;
use schedlab_compare::comparison::{COMPARISON_SCHEMA, Cell, CellStat, Measured};
use schedlab_record::Better;
use std::collections::BTreeMap;

fn cell(load: &str, variant: &str, values: &[f64]) -> Cell {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let measured = |factor: f64, unit: &str| {
        CellStat::Measured(Measured {
            unit: unit.to_owned(),
            better: Better::Lower,
            mean: mean * factor,
            std_pct: None,
            values: values.iter().map(|v| v * factor).collect(),
            missing_runs: 0,
        })
    };
    Cell {
        backend: Backend::Sim.into(),
        mode: None,
        level: None,
        free_ns: 0,
        machine: "smp-2".into(),
        kernel: "v4.5".into(),
        workload: "schbench".into(),
        load: load.into(),
        params: serde_json::Value::Null,
        variant: variant.into(),
        runs: values.len(),
        seeds: (1..=values.len() as u64).collect(),
        folders: Vec::new(),
        watched: None,
        computer: None,
        metrics: BTreeMap::from([
            ("run_delay.p99".to_owned(), measured(1e6, "ns")),
            ("migrations".to_owned(), measured(100.0, "")),
        ]),
    }
}

fn comparison(cells: Vec<Cell>) -> Comparison {
    Comparison {
        schema: COMPARISON_SCHEMA.into(),
        experiment: "small <one>".into(),
        model: 1,
        metrics: vec!["run_delay.p99".into(), "migrations".into(), "rps".into()],
        baseline_is: Default::default(),
        min_effect_pct: 2.0,
        cells,
        comparisons: Vec::new(),
        stalled: Vec::new(),
        disagreements: Vec::new(),
        published: Vec::new(),
        fits: Vec::new(),
        uncertainty: vec![],
        looks: vec![],
        runs_needed: None,
        answers: Vec::new(),
        warnings: Vec::new(),
    }
}

fn swept() -> Comparison {
    let of = |variant: &str, hz: u64, values: &[f64]| cell("1x4", &format!("{variant},hz={hz}"), values);
    comparison(vec![
        of("off", 100, &[1.0, 1.2, 1.1]),
        of("off", 250, &[2.0, 2.4, 2.2]),
        of("off", 1000, &[4.0, 4.1, 4.4]),
        of("on", 100, &[0.5, 0.6, 0.4]),
        of("on", 250, &[0.7, 0.9, 0.8]),
        of("on", 1000, &[1.0, 1.0, 1.0]),
        cell("1x4", "eevdf", &[3.0, 3.0]),
    ])
}

#[test]
fn a_sweep_becomes_lines_and_the_rest_their_names() {
    let data = data::of(&swept());
    assert_eq!((data.swept, data.panels.len()), (Some(("hz".to_owned(), "")), 2));
    let lines = &data.panels[0].lines;
    assert_eq!(lines.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["off", "on", "eevdf"]);
    assert_eq!(
        lines[0].points.iter().map(|p| p.x).collect::<Vec<_>>(),
        [Some(100.0), Some(250.0), Some(1000.0)]
    );
    // Three runs: t of 4.303 times 0.1 ms over the root of 3.
    assert!((lines[0].points[0].half - 4.3027 * 0.1e6 / 3f64.sqrt()).abs() < 100.0);
    assert_eq!((lines[2].points[0].x, lines[1].points[2].half), (None, 0.0));
}

#[test]
fn times_and_loads_may_be_swept() {
    let slices =
        comparison(vec![cell("1x2", "v6.12,slice=1ms", &[1.0]), cell("1x2", "v6.12,slice=3ms", &[2.0])]);
    assert_eq!(data::of(&slices).swept, Some(("slice".to_owned(), "ns")));
    let bench = comparison(vec![cell("threads=2", "v4.5", &[1.0]), cell("threads=4", "v4.5", &[2.0])]);
    assert_eq!(data::of(&bench).swept, Some(("threads".to_owned(), "")));
    let bars = comparison(vec![cell("1x2", "a", &[1.0]), cell("1x4", "a", &[2.0]), cell("1x4", "b", &[2.0])]);
    let data = data::of(&bars);
    assert_eq!((data.swept, data.groups), (None, vec!["1x2".to_owned(), "1x4".to_owned()]));
    assert_eq!(data.panels[0].lines[1].points[0].x, Some(1.0));
}

/// Words of the drawing; those in the same column and colour are put together again.
fn words(svg: &str) -> Vec<&str> {
    svg.lines().filter_map(|l| l.strip_suffix("</text>")?.rsplit('>').next()).collect()
}

#[test]
fn labels_of_many_groups_are_complete_and_different() {
    let machines =
        ["fb-2x12-smt", "fb-2x12-smt-0.3pct", "fb-2x12-smt-30us", "fb-2x12-smt-0.3pct-30us", "fb-2x24"];
    let cells = machines.iter().flat_map(|m| {
        ["v4.5", "first-idle"].map(|v| Cell { machine: (*m).to_owned(), ..cell("2x24", v, &[1.0, 2.0]) })
    });
    let c = comparison(cells.chain([cell("30x1000 and a long name", "v4.5", &[1.0])]).collect());
    let svg = String::from_utf8(plot(&c, PlotFile::Svg).unwrap()).unwrap();
    let pieces = words(&svg);
    for m in machines {
        let whole = (0..pieces.len()).any(|i| {
            (1..5).any(|n| {
                pieces.get(i..i + n).is_some_and(|p| p.concat().replace(' ', "") == format!("{m}2x24"))
            })
        });
        assert!(whole, "{m} in {pieces:?}");
    }
    let room =
        |svg: &str| svg.split("width=\"").nth(1).and_then(|w| w.split('"').next()?.parse::<f64>().ok());
    let many: Vec<Cell> = (0..30).map(|i| cell(&format!("load number {i}"), "v4.5", &[1.0])).collect();
    let wide = String::from_utf8(plot(&comparison(many), PlotFile::Svg).unwrap()).unwrap();
    assert!(
        room(&wide) > Some(30.0 * GROUP) && room(&svg) == Some(WIDTH),
        "{:?} {:?}",
        room(&wide),
        room(&svg)
    );
}

#[test]
fn published_figures_are_marks_and_values_are_tips() {
    let published = |load: &str| schedlab_record::Published {
        variant: "v4.5".into(),
        metric: "run_delay.p99".into(),
        load: Some(load.into()),
        value: 9e6,
        unit: "ns".into(),
        source: String::new(),
    };
    let mut c = comparison(vec![cell("1x2", "v4.5", &[1.0, 2.0]), cell("1x4", "v4.5", &[2.0])]);
    let svg = |c: &Comparison| String::from_utf8(plot(c, PlotFile::Svg).unwrap()).unwrap();
    let marks = |svg: &str| svg.matches("stroke=\"#222222\"").count();
    let plain = svg(&c);
    assert_eq!((marks(&plain), plain.contains(">published<")), (0, false));
    let tip = "<title>schbench 1x2 on smp-2, v4.5: 1.50ms +- 6.35ms (2 runs)</title></rect>";
    assert!(plain.contains(tip), "{plain}");
    c.published = vec![published("1x2")];
    let with = svg(&c);
    assert_eq!(
        (marks(&with), with.contains(">published<")),
        (2, true),
        "one in the panel, one in the legend"
    );
    assert!(with.contains("(2 runs); published 9.00ms</title>"));
    // The axis reaches the published figure.
    assert!(
        words(&with).contains(&"8")
            && !words(&svg(&comparison(vec![cell("1x4", "v4.5", &[2.0])]))).contains(&"8")
    );
}

#[test]
fn the_svg_equals_its_golden_file() {
    let svg = String::from_utf8(plot(&swept(), PlotFile::Svg).unwrap()).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plot.svg");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &svg).unwrap();
    }
    assert_eq!(svg, std::fs::read_to_string(golden).unwrap());
    assert!(svg.contains("small &lt;one&gt;") && svg.contains(">run_delay.p99, ms<"));
}

#[test]
fn the_png_has_lines_and_words_without_a_font_of_the_system() {
    let png = plot(&swept(), PlotFile::Png).unwrap();
    assert_eq!(png, plot(&swept(), PlotFile::Png).unwrap(), "the same bytes");
    let pixels = tiny_skia::Pixmap::decode_png(&png).unwrap();
    assert_eq!(
        (pixels.width(), f64::from(pixels.height())),
        (1520, 2.0 * (34.0 + 3.0 * ROW + 2.0 * (TOP + INNER + BOTTOM)))
    );
    let dark = |p: &&tiny_skia::PremultipliedColorU8| p.red() < 80 && p.green() < 80 && p.blue() < 80;
    let of = |red, green, blue| {
        move |p: &&tiny_skia::PremultipliedColorU8| (p.red(), p.green(), p.blue()) == (red, green, blue)
    };
    // Words are black, and only they are that dark: about 100 pixels.
    let ink = pixels.pixels().iter().filter(dark).count();
    assert!((2_000..60_000).contains(&ink), "{ink} dark pixels");
    assert!(pixels.pixels().iter().filter(of(0, 0x72, 0xb2)).count() > 1_000, "the first line's colour");
    let file = std::env::var_os("PLOT_TO");
    file.map_or(Ok(()), |file| std::fs::write(file, png)).unwrap();
}

#[test]
fn each_workload_has_its_own_axis_and_every_line_its_colour() {
    let of = |workload: &str, load: &str| Cell { workload: workload.into(), ..cell(load, "v4.5", &[1.0]) };
    let c = comparison(vec![
        of("a", "x,threads=2"),
        of("a", "x,threads=4"),
        of("b", "y,groups=1"),
        of("b", "y,groups=8"),
    ]);
    let all = data::by_workload(&c);
    let axes: Vec<_> = all.iter().map(|d| d.swept.clone().unwrap().0).collect();
    assert_eq!(axes, ["threads", "groups"]);
    let titles: Vec<_> = all.iter().flat_map(|d| &d.panels).map(|p| p.metric.as_str()).collect();
    assert_eq!(titles, ["a run_delay.p99", "a migrations", "b run_delay.p99", "b migrations"]);
    assert!(
        all.iter()
            .flat_map(|d| &d.panels)
            .flat_map(|p| &p.lines)
            .flat_map(|l| &l.points)
            .all(|p| p.x.is_some())
    );
    let colours: std::collections::BTreeSet<u32> = (0..24).map(color).collect();
    assert_eq!(colours.len(), 24);
}

#[test]
fn comparisons_that_can_t_be_plotted_are_refused() {
    assert!(PlotFile::of(Path::new("a.pdf")).unwrap_err().to_string().contains(".svg or .png"));
    let mut none = swept();
    none.metrics = vec!["rps".into()];
    assert!(plot(&none, PlotFile::Svg).unwrap_err().to_string().contains("nothing to plot"));
}
