//! The end of help texts.

/// Examples and exit codes, for below a help text.
#[macro_export]
macro_rules! after_help {
    ($($line:literal)*) => {
        concat!(
            "Examples:\n", $("  ", $line, "\n",)*
            "\nExit codes:\n",
            "  0  done\n",
            "  1  failure: system, network or data; the error says what to do\n",
            "  2  the command line cannot be understood\n",
            "  3  what was waited for did not happen in time\n",
            "  4  done, but messages are missing or may be: lost, dropped, not written, sent by or to a\n",
            "     node while it was excluded, or not acknowledged by a receiver that left, is away, or\n",
            "     is slower than --flush-timeout\n",
            "  5  given up: the cluster has another membership service already, which the error names",
        )
    };
}
