//! What went wrong, in one line.

use std::{ffi::OsString, fmt, process::ExitCode};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::{args, output};

/// An end with a line and a code.
#[derive(Debug)]
pub(crate) struct Fault {
    code: u8,
    line: String,
}

impl Fault {
    /// Bad input to `run`, or a failure of its own.
    pub(crate) fn run(line: impl fmt::Display) -> Fault {
        Fault::with(125, line)
    }

    /// Bad input to any other command.
    pub(crate) fn usage(line: impl fmt::Display) -> Fault {
        Fault::with(2, line)
    }

    pub(crate) fn with(code: u8, line: impl fmt::Display) -> Fault {
        Fault { code, line: line.to_string() }
    }

    pub(crate) fn report(self) -> ExitCode {
        output::complain(&self.line);
        ExitCode::from(self.code)
    }
}

/// What the parser makes of words it does not take: help and version are such, too.
pub(crate) fn of_words(error: &clap::Error, words: &[OsString]) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return output::print(&error.render().to_string());
    }
    let run = words.get(1).is_some_and(|word| word == args::RUN);
    let code = if run { 125 } else { 2 };
    Fault::with(code, line(error, run)).report()
}

fn line(error: &clap::Error, run: bool) -> String {
    let word = text(error, ContextKind::InvalidArg);
    // The parser shows the value's name behind an option.
    let option = word.split(' ').next().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if word.starts_with('-') => {
            let nearest = text(error, ContextKind::SuggestedArg);
            let help = if run { "pidward run --help" } else { "pidward --help" };
            match nearest.as_str() {
                "" => format!("unknown option '{option}': expected one of those in '{help}'"),
                nearest => format!("unknown option '{option}': expected '{nearest}'?"),
            }
        }
        ErrorKind::UnknownArgument if run => {
            format!("unexpected argument '{word}': expected '--' before the program")
        }
        ErrorKind::UnknownArgument => format!("unexpected argument '{word}': expected no more"),
        ErrorKind::InvalidSubcommand => {
            let word = text(error, ContextKind::InvalidSubcommand);
            let nearest = text(error, ContextKind::SuggestedSubcommand);
            match nearest.as_str() {
                "" => format!("unknown command '{word}': expected {}", args::COMMANDS),
                nearest => format!("unknown command '{word}': expected '{nearest}'?"),
            }
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("no command: expected {}", args::COMMANDS)
        }
        ErrorKind::MissingRequiredArgument if run => "no program: expected '-- PROGRAM [ARG]...'".to_owned(),
        ErrorKind::MissingRequiredArgument => {
            format!("no '{}': expected it", word.replace(['<', '>', '.'], ""))
        }
        ErrorKind::ArgumentConflict => match text(error, ContextKind::PriorArg).split(' ').next() {
            Some(other) if !other.is_empty() && other != option => {
                format!("'{option}' beside '{other}': expected one of them")
            }
            _ => format!("'{option}' is given twice: expected once"),
        },
        ErrorKind::InvalidValue if option.starts_with('-') => {
            format!("no value for '{option}': expected one after it")
        }
        ErrorKind::InvalidValue => "no program: expected '-- PROGRAM [ARG]...'".to_owned(),
        ErrorKind::TooManyValues => format!("a value for '{option}': expected none"),
        _ => format!("{} at '{word}': expected what '--help' shows", error.kind()),
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        // The nearest comes last.
        Some(ContextValue::Strings(texts)) => texts.last().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}
