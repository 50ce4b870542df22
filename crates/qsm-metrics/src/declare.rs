/// Declares a struct of metrics; the [crate] page shows how.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$outer:meta])*
        $access:vis struct $type:ident of $group:literal,
            counted in $count_access:vis $counts:ident {
            $($(#[doc = $help:literal])* $name:ident: $kind:ident($($unit:tt)+),)*
        }
    ) => {
        $crate::metrics! {
            $(#[$outer])*
            $access struct $type of $group {
                $($(#[doc = $help])* $name: $kind($($unit)+),)*
            }
        }

        /// The same, counted by several threads.
        #[derive(Debug, Default)]
        $count_access struct $counts {
            $($(#[doc = $help])* $count_access $name: $crate::Count,)*
        }

        impl $counts {
            /// Counted so far.
            #[must_use]
            $count_access fn read(&self) -> $type {
                $type {
                    $($name: self.$name.value(),)*
                }
            }
        }

        /// Takes the numbers of rows in the order of declaration; those that are missing are zero.
        impl ::core::iter::FromIterator<u64> for $type {
            fn from_iter<I: ::core::iter::IntoIterator<Item = u64>>(numbers: I) -> Self {
                let mut numbers = numbers.into_iter();
                Self {
                    $($name: numbers.next().unwrap_or_default(),)*
                }
            }
        }
    };
    (
        $(#[$outer:meta])*
        $access:vis struct $type:ident of $group:literal {
            $($(#[doc = $help:literal])* $name:ident: $kind:ident($($unit:tt)+),)*
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        $access struct $type {
            $($(#[doc = $help])* pub $name: $crate::__type!($kind $($unit)+),)*
        }

        impl $type {
            /// Every metric with its value, in the order of declaration.
            #[must_use]
            $access fn rows(&self) -> Vec<$crate::Row<'_>> {
                $crate::rows(self)
            }
        }

        impl $crate::Metrics for $type {
            fn group(&self) -> &'static str {
                $group
            }

            fn append<'a>(&'a self, path: $crate::Path, rows: &mut Vec<$crate::Row<'a>>) {
                $($crate::__append!(
                    $kind $($unit)+, path, rows, &self.$name, stringify!($name),
                    const { concat!($($help),*).trim_ascii() }
                );)*
            }
        }

        impl ::core::ops::AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $($crate::__add!($kind, self.$name, other.$name);)*
            }
        }

        /// A line for each metric that is not zero.
        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                for row in self.rows().iter().filter(|row| !row.is_zero()) {
                    writeln!(f, "{row}")?;
                }
                Ok(())
            }
        }
    };
}

/// The type of a field.
#[doc(hidden)]
#[macro_export]
macro_rules! __type {
    (group $type:ty) => {
        $type
    };
    (histogram seconds) => {
        $crate::Histogram
    };
    ($kind:ident seconds) => {
        ::core::time::Duration
    };
    ($kind:ident $unit:ident) => {
        u64
    };
}

/// The rows of a field.
#[doc(hidden)]
#[macro_export]
macro_rules! __append {
    (group $type:ty, $path:ident, $rows:ident, $value:expr, $name:expr, $help:expr) => {
        $crate::Metrics::append($value, $path.within($name), $rows)
    };
    (
        $kind:ident $unit:ident, $path:ident, $rows:ident, $value:expr, $name:expr, $help:expr
    ) => {
        $rows.push($crate::Row {
            path: $path,
            metric: const {
                &$crate::Metric {
                    name: $name,
                    kind: $crate::__kind!($kind),
                    unit: $crate::__unit!($unit),
                    help: $help,
                }
            },
            value: $crate::__value!($unit $value),
        })
    };
}

/// Adds a field to another.
#[doc(hidden)]
#[macro_export]
macro_rules! __add {
    (maximum, $into:expr, $from:expr) => {
        $into = ::core::cmp::Ord::max($into, $from)
    };
    ($kind:ident, $into:expr, $from:expr) => {
        $into += $from
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __kind {
    (counter) => {
        $crate::Kind::Counter
    };
    (gauge) => {
        $crate::Kind::Gauge
    };
    (maximum) => {
        $crate::Kind::Maximum
    };
    (histogram) => {
        $crate::Kind::Histogram
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __unit {
    (bytes) => {
        $crate::Unit::Bytes
    };
    (nanoseconds) => {
        $crate::Unit::Nanoseconds
    };
    (seconds) => {
        $crate::Unit::Seconds
    };
    ($items:ident) => {
        $crate::Unit::Items(stringify!($items))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __value {
    (nanoseconds $value:expr) => {
        $crate::Value::Time(::core::time::Duration::from_nanos(*$value))
    };
    ($unit:ident $value:expr) => {
        $crate::Value::from($value)
    };
}
