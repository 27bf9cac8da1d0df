//! Tests of importers: small recordings, files in binary forms, damage, speed.

mod binary;
mod events;
mod hostile;
mod made;
mod speed;
mod tools;
