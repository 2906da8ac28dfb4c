//! Words for the log, from threads and moments that a logger of the host must not end by a panic of its own.

/// `say!(warn, "…", …)`: as the macro of `log`. A panic of the logger ends here.
macro_rules! say {
    ($level:ident, $($words:tt)+) => {
        // What the logger leaves half done is its own.
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| log::$level!($($words)+))))
    };
}

pub(crate) use say;
