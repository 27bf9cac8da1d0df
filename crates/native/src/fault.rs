//! An error that is passed from one process or machine to another.

use schedlab_base::{Error, ErrorKind, Spot};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The error as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Exit code of the error's class.
    class: u8,
    message: String,
    help: Option<String>,
    /// File, optionally with line and column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<(PathBuf, Option<(usize, usize)>)>,
}

impl From<&Error> for Fault {
    fn from(e: &Error) -> Fault {
        Fault {
            class: e.kind().exit_code(),
            message: e.message().to_owned(),
            help: e.remedy().map(str::to_owned),
            place: e.spot().map(|spot| (spot.file.clone(), spot.line_column)),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let kinds = [ErrorKind::CheckFailed, ErrorKind::Input, ErrorKind::Machine];
        let kind = kinds.into_iter().find(|k| k.exit_code() == fault.class);
        let error = Error::new(kind.unwrap_or(ErrorKind::Internal), fault.message);
        let error = match fault.place {
            Some((file, line_column)) => error.at(Spot { file, line_column }),
            None => error,
        };
        match fault.help {
            Some(help) => error.help(help),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_class_place_message_and_remedy() {
        let over = |e: Error| {
            let text = serde_json::to_string(&Fault::from(&e)).unwrap();
            Error::from(serde_json::from_str::<Fault>(&text).unwrap())
        };
        let e = over(Error::machine("no CPU 7").help("use 0-1"));
        assert_eq!((e.kind(), e.to_string().as_str()), (ErrorKind::Machine, "no CPU 7\n  help: use 0-1"));
        let placed = Error::machine("no").at(Spot::at_offset(std::path::Path::new("a.json"), "x\ny", 2));
        assert_eq!(over(placed).to_string(), "a.json:2:1: no");
    }
}
