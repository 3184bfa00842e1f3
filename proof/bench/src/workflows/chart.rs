//! The pictures: bars of what a section takes, of what waiting takes, and of what a million sections cost.

use crate::measures::Measure;
use crate::picture::{Bar, Bars, Picture};

use super::scenes::OURS;

/// Whose they are, in the legend's order.
const NAMES: [&str; 5] = [
    "leasehold",
    "polling",
    "aws-semaphore",
    "dynamodb-lease",
    "others",
];

/// A picture of those measures whose names are given, with what they are called in it.
pub(super) fn draw(
    name: &'static str,
    title: &'static str,
    measures: &[Measure],
    shown: &[(&str, &str)],
) -> Picture {
    let panels = shown.iter().filter_map(|(of, title)| {
        let measure = measures.iter().find(|measure| measure.name == *of)?;
        Some(panel(title, measure))
    });
    let panels: Vec<String> = panels.collect();
    Picture::of_panels(name, title, &NAMES, &panels)
}

fn panel(title: &str, measure: &Measure) -> String {
    let mut bars = vec![bar(OURS, measure.ours, &measure.unit)];
    let peers = measure.peers.iter();
    bars.extend(peers.map(|(name, value)| bar(name, *value, &measure.unit)));
    Bars { title, bars }.draw()
}

fn bar(name: &str, value: f64, unit: &str) -> Bar<'static> {
    let class = match name {
        OURS => "leasehold",
        name if name.starts_with(OURS) => "polling",
        name if name.starts_with("aws-semaphore") => "aws-semaphore",
        "dynamodb-lease" => "dynamodb-lease",
        "python-dynamodb-lock" => "python-dynamodb-lock",
        _ => "others",
    };
    let told = if unit.starts_with("USD") {
        format!("{value:.2} USD")
    } else if (value - value.round()).abs() < 0.05 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    };
    Bar {
        class,
        label: name.to_owned(),
        value,
        told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measure_is_a_panel_with_a_bar_for_each() {
        let measure = Measure::new("cost", "USD per million", 53.7)
            .peer("aws-semaphore", 126.25)
            .peer("polling loop", 51.0);
        let picture = draw(
            "costs",
            "Costs",
            &[measure],
            &[("cost", "In a workflow"), ("none", "")],
        );
        assert_eq!(
            picture.svg.matches("class=\"bar").count(),
            3,
            "{}",
            picture.svg
        );
        for told in ["53.70 USD", "126.25 USD", "bar others", "In a workflow"] {
            assert!(picture.svg.contains(told), "{told}: {}", picture.svg);
        }
        assert_eq!(bar("x", 90.909, "transitions").told, "90.9");
        assert_eq!(
            bar("leasehold, polling", 2.0, "transitions").class,
            "polling"
        );
    }
}
