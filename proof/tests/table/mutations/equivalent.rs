//! Mutants that say the same in other words, each kind with the reason. What is said twice is said for an engine that
//! reads types another way, or because the parts that every condition is made of say it.

type Rule = fn(&Mutant) -> bool;

/// Each kind, and the reason.
pub const RULES: [(Rule, &str); 10] = [
    (
        |m| m.is("attribute_type(#", ", :number)` always true"),
        "here a range is false of anything but a number; not in every engine",
    ),
    (
        |m| m.is_a_guard() && m.form.contains(&format!("#{} = :", m.name)) && !m.sees(),
        "it equals a value that is what the guard asks for",
    ),
    (
        |m| m.is("#expires_at BETWEEN", "as `#expires_at >= :one`") && m.is_bounded_above(),
        "another part bounds it from above",
    ),
    (
        |m| m.is("#expires_at BETWEEN", "as `#expires_at <= :forever`") && m.is_bounded_below(),
        "another part bounds it from below",
    ),
    (
        |m| {
            m.is("#expires_at BETWEEN", "always true")
                && m.is_bounded_above()
                && m.is_bounded_below()
        },
        "other parts bound it",
    ),
    (
        |m| {
            let floor = m.is("#fencing_token BETWEEN", "as `#fencing_token <= :most`");
            let below = m.is("#fencing_token BETWEEN", "as `#fencing_token >= :one`");
            floor && m.form.contains("#fencing_token >= :floor")
                || below && m.form.contains("#fencing_token < :floor")
        },
        "another part bounds it there",
    ),
    (
        |m| m.is("attribute_type(#granted_to", "always true") && m.is_held() && !m.is_free(),
        "it equals the holder, which is the index's key, and so can be nothing but a string",
    ),
    (
        |m| {
            let beside = ["size(#queue)", "#queue[n] = :request", "#queue[0] = :head"];
            m.is("attribute_type(#queue, :list)", "` always true")
                && beside.iter().any(|part| m.form.contains(part))
        },
        "another part asks for what only a list has",
    ),
    (
        |m| m.form == "attribute_not_exists(#pk)" && m.what.starts_with("without REMOVE"),
        "there is nothing to remove",
    ),
    (
        |m| m.what.starts_with("without SET #version = #version"),
        "it changes nothing: the row is a condition of the other writes",
    ),
];

/// Why nothing can come of this mistake in writes of this form; none if something can.
pub fn because(form: &str, what: &str) -> Option<&'static str> {
    let mutant = Mutant::of(form, what);
    let mut found = RULES.into_iter().filter(|(rule, _)| rule(&mutant));
    found.next().map(|(_, reason)| reason)
}

pub struct Mutant<'a> {
    form: &'a str,
    what: &'a str,
    /// The attribute that it is about first.
    name: &'a str,
}

impl<'a> Mutant<'a> {
    fn of(form: &'a str, what: &'a str) -> Self {
        let name = super::mutants::attribute(what);
        Self { form, what, name }
    }

    fn is(&self, part: &str, how: &str) -> bool {
        let what = self.what.strip_prefix('`').unwrap_or_default();
        what.starts_with(part) && what.ends_with(how)
    }

    /// One that would let more through: a type that is not asked for, a range without an end.
    fn is_a_guard(&self) -> bool {
        let of_type = self.is("attribute_type(#", "` always true");
        let range = self.what.contains(" BETWEEN ") && !self.what.ends_with("negated");
        of_type || range && !self.what.ends_with("always false")
    }

    /// The version that an observer saw is asked of held rows only.
    fn sees(&self) -> bool {
        self.form.contains("#version = :unchanged") && self.name == "version"
    }

    fn is_held(&self) -> bool {
        self.form.contains("#holder = #granted_to")
    }

    fn is_free(&self) -> bool {
        self.form.contains("attribute_not_exists(#holder)")
    }

    fn is_bounded_above(&self) -> bool {
        let above = ["#expires_at <= :expires_at", "#expires_at <= :passed"];
        above.iter().any(|part| self.form.contains(part))
    }

    fn is_bounded_below(&self) -> bool {
        let below = ["AND #expires_at > :now", "AND #expires_at > :expires_at"];
        below.iter().any(|part| self.form.contains(part))
    }
}
