//! The variables that a section has, and the expressions made of them.

/// A section's variables: its name in small letters, and what they are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vars {
    stem: String,
}

/// The time limit that a task has by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    Absent,
    Seconds(f64),
    /// An expression or a path of the author's.
    Computed,
}

/// What each is for.
const KINDS: [&str; 5] = ["lease", "proven", "doubts", "turns", "failure"];

/// Before and after the number of seconds that a task may take by itself.
const AT_MOST: (&str, &str) = ("$min([", ", $left])");

impl Vars {
    pub(crate) fn of(section: &str) -> Self {
        let mut stem = String::new();
        for (at, c) in section.char_indices() {
            if c.is_ascii_uppercase() && at > 0 && !stem.ends_with('_') {
                let before = section[..at].chars().next_back();
                if before.is_some_and(|before| !before.is_ascii_uppercase()) {
                    stem.push('_');
                }
            }
            stem.push(c.to_ascii_lowercase());
        }
        Self { stem }
    }

    pub(crate) fn name(&self, kind: &str) -> String {
        format!("{}_{kind}", self.stem)
    }

    pub(crate) fn lease(&self) -> String {
        self.name("lease")
    }

    pub(crate) fn proven(&self) -> String {
        self.name("proven")
    }

    pub(crate) fn doubts(&self) -> String {
        self.name("doubts")
    }

    pub(crate) fn turns(&self) -> String {
        self.name("turns")
    }

    pub(crate) fn failure(&self) -> String {
        self.name("failure")
    }

    /// Whether this is one of them, as a field of an Assign.
    pub(crate) fn has(&self, key: &str) -> bool {
        let key = key.strip_suffix(".$").unwrap_or(key);
        KINDS.iter().any(|kind| key == self.name(kind))
    }

    /// The time limit of a task that ends with the lease, and no later than it would by itself.
    pub(crate) fn limit(&self, own: Option<f64>) -> String {
        let (lease, proven) = (self.lease(), self.proven());
        let left = own.map_or("$left".to_owned(), |own| {
            format!("{}{own}{}", AT_MOST.0, AT_MOST.1)
        });
        format!(
            "{{% ($left := $floor(($toMillis(${lease}.safe_until) - $millis()) / 1000); $left >= 1 and $states.context.Execution.RedriveCount = ${proven} ? {left}) %}}"
        )
    }

    /// Whether a time limit is one of ours, and what it was before.
    pub(crate) fn own_limit(&self, text: &str) -> Option<Limit> {
        if text == self.limit(None) {
            return Some(Limit::Absent);
        }
        let own = text.split(AT_MOST.0).nth(1)?.split(AT_MOST.1).next()?;
        let own = own.parse().ok()?;
        (text == self.limit(Some(own))).then_some(Limit::Seconds(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_names_its_variables() {
        assert_eq!(Vars::of("Order").lease(), "order_lease");
        assert_eq!(Vars::of("BookHTTPSeat2").turns(), "book_httpseat2_turns");
        assert!(Vars::of("Order").has("order_failure.$"));
        assert!(!Vars::of("Order").has("order_total"));
    }

    #[test]
    fn a_limit_of_ours_is_told_from_others() {
        let vars = Vars::of("Order");
        assert_eq!(vars.own_limit(&vars.limit(None)), Some(Limit::Absent));
        let own = vars.own_limit(&vars.limit(Some(30.0)));
        assert_eq!(own, Some(Limit::Seconds(30.0)));
        assert_eq!(vars.own_limit("{% $min([30, $left]) %}"), None);
        assert_eq!(vars.own_limit(&Vars::of("Other").limit(None)), None);
    }
}
