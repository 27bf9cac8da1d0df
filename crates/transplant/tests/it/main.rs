//! Images of a source package in the cache: built, booted, driven. Without a package these tests are skipped. Those
//! of `both` have one body for our rules and the kernel's code.
//!
//! One process holds one image, so each test starts itself again for its work with an image (`again`).

mod again;
mod boot;
mod both;
mod caches;
mod configs;
mod drive;
mod engine;
mod faults;
mod features;
mod patches;
