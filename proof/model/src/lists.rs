//! Lists of names with words, and what is made of each: invariants, properties, flaws.

/// What must hold: each name, and the words for it.
macro_rules! invariants {
    ($($name:ident $words:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Invariant {
            $($name,)*
        }

        impl Invariant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

/// That each invariant holds in every state of a world. `$seen` is what such a state has seen so far.
macro_rules! properties {
    ($world:ty, $seen:ident: $($name:ident)*) => {
        Invariant::ALL
            .iter()
            .zip([$((|_, state| !state.$seen.has(Invariant::$name)) as fn(&$world, &<$world as stateright::Model>::State) -> bool),*])
            .map(|(invariant, holds)| stateright::Property::always(invariant.words(), holds))
            .collect()
    };
}

/// Designs that are wrong in one point each: a name, the invariant that it breaks, the world that shows it, and the words.
macro_rules! flaws {
    ($($flaw:ident $invariant:ident $scope:ident $words:literal)*) => {
        /// What is wrong with a design.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flaw {
            $($flaw,)*
        }

        /// A flaw, in words, what it breaks, and in which world.
        pub type Broken = (Flaw, &'static str, Invariant, Scope);

        /// All of them.
        pub const FLAWS: &[Broken] = &[$((Flaw::$flaw, $words, Invariant::$invariant, scope::$scope),)*];
    };
}

pub(crate) use {flaws, invariants, properties};
