use super::*;
use crate::testing::results;

#[test]
fn every_kind_of_chart_draws_what_it_should() {
    let results = results(1);
    let charts = charts(&results);
    let sizes: Vec<usize> = charts.iter().map(|c| c.panels.len()).collect();
    // Time: one panel for each protocol at 1 Mbit.
    assert_eq!(sizes, [1, 1, 2]);
    let lines = &charts[0].panels[0];
    // One polyline and one band a series, three markers each and one in its label.
    assert_eq!(lines.matches("<polyline").count(), 2);
    assert_eq!(lines.matches("<polygon").count(), 2);
    let newreno = protocol_style("newreno").unwrap();
    assert!(lines.contains(newreno.color), "{}", newreno.color);
    for text in [
        ">sack<",
        ">newreno<",
        ">Rate (Mbit)<",
        ">clean (Mbit/s)<",
        ">three<",
        ">4<",
    ] {
        assert!(lines.contains(text), "{text}\n{lines}");
    }
    let dots = &charts[1].panels[0];
    assert_eq!(dots.matches("<polyline").count(), 0);
    assert!(charts[2].panels[1].contains(">sack, 1 Mbit<"));
    let whole = stacked(&charts).unwrap();
    assert!(
        whole.contains("viewBox=\"0 0 640 1600\""),
        "four panels of 400"
    );
    let open = whole.matches("<svg").count();
    assert_eq!(open, whole.matches("</svg>").count());
    assert!(!whole.contains("NaN"));
}
