//! Kernels and variants in words of the command line.

use schedlab_base::{Error, Result};
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{DEFAULT_PROFILE, Variant};
use schedlab_lab::Backend;

/// Reads `[NAME=]KERNEL[:CHANGE[,CHANGE...]]`, a change being a feature (`SIS_FIRST_IDLE`, `NO_LAST_BUDDY`) or a tunable
/// (`hz=1000`). Without a name the variant is called as it is written.
///
/// # Errors
/// Another form, and what the kernel's tables do not have.
pub fn parse(text: &str) -> Result<Variant> {
    let (front, changes) = text.split_once(':').unwrap_or((text, ""));
    let (name, kernel) = front.split_once('=').unwrap_or((text, front));
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(Error::input(format!("variant {text:?}: its name is empty or has control characters"))
            .help("write [NAME=]KERNEL[:CHANGE,...]"));
    }
    let mut variant = Variant { name: name.to_owned(), ..Variant::plain(kernel) };
    for change in changes.split(',').filter(|c| !c.is_empty()) {
        match change.split_once('=') {
            Some(_) => tunable(&mut variant, change)?,
            None => variant.features.push(change.to_owned()),
        }
    }
    checked(variant)
}

/// Reads several, each with a name of its own.
///
/// # Errors
/// As [`parse`], and two of one name.
pub fn all(texts: &[String]) -> Result<Vec<Variant>> {
    let mut all: Vec<Variant> = Vec::new();
    for text in texts {
        let variant = parse(text)?;
        if all.iter().any(|v| v.name == variant.name) {
            let name = &variant.name;
            return Err(Error::input(format!("two variants have the name '{name}'"))
                .help("name one: --variant NAME=KERNEL[:CHANGE,...]"));
        }
        all.push(variant);
    }
    Ok(all)
}

/// A kernel with features and tunables named one by one; its name tells them.
///
/// # Errors
/// As [`parse`].
pub fn of(kernel: &str, features: &[String], tunables: &[String]) -> Result<Variant> {
    let mut variant = Variant::plain(kernel);
    variant.features = features.to_vec();
    tunables.iter().try_for_each(|t| tunable(&mut variant, t))?;
    let changes: Vec<&str> = features.iter().chain(tunables).map(String::as_str).collect();
    if !changes.is_empty() {
        variant.name = format!("{kernel}:{}", changes.join(","));
    }
    checked(variant)
}

fn tunable(variant: &mut Variant, text: &str) -> Result<()> {
    let parts =
        text.split_once('=').and_then(|(name, value)| Some((name, value.replace('_', "").parse().ok()?)));
    let (name, value) = parts.ok_or_else(|| {
        Error::input(format!("'{text}' is not a tunable with its value")).help("write it as hz=1000")
    })?;
    variant.tunables.insert(name.to_owned(), value);
    Ok(())
}

fn checked(variant: Variant) -> Result<Variant> {
    if variant.kernel != RUNNING {
        variant.resolve()?;
    }
    Ok(variant)
}

/// The kernel that is meant when none is named.
pub fn default_kernel(backend: Backend) -> String {
    match backend {
        Backend::Sim => DEFAULT_PROFILE.to_string(),
        Backend::Host => RUNNING.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_name_kernel_and_changes() {
        let v = parse("first=v4.5:SIS_FIRST_IDLE,hz=1000").unwrap();
        assert_eq!((v.name.as_str(), v.kernel.as_str(), v.features.len()), ("first", "v4.5", 1));
        assert_eq!(v.tunables["hz"], 1000);
        assert_eq!(parse("v4.5:NO_SIS_SKIP_TARGET").unwrap().name, "v4.5:NO_SIS_SKIP_TARGET");
        assert!(parse("v4.5").unwrap().is_plain());
        let same = of("v4.5", &["NO_SIS_SKIP_TARGET".into()], &[]).unwrap();
        assert_eq!(same, parse("v4.5:NO_SIS_SKIP_TARGET").unwrap());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("v4.5:SIS_FRST_IDLE").contains("'SIS_FIRST_IDLE'"));
        assert!(error("v9.9").contains("v4.5"));
        assert!(error("v4.5:hz=x").contains("hz=1000"));
        assert!(error("v4.5:hzz=1").contains("'hz'"));
        assert!(error("=v4.5").contains("name is empty"));
        let twice = all(&["v4.5".into(), "v4.5".into()]).unwrap_err().to_string();
        assert!(twice.contains("two variants have the name 'v4.5'"));
    }
}
