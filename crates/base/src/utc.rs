//! Dates for people: seconds since 1970 as a calendar date and minute in UTC.

use std::time::SystemTime;

/// Seconds since 1970 as "2026-11-22 06:10", UTC. Years are counted from March, so that the leap day is their last.
pub fn minute(since_1970_s: u64) -> String {
    let (days, s) = (since_1970_s / 86_400, since_1970_s % 86_400);
    // Days since 1 March of the year 0; 400 years have 146,097 of them.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (of_month, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{of_month:02} {:02}:{:02}", s / 3_600, s % 3_600 / 60)
}

/// Seconds since 1970; 0 for earlier times.
pub fn since_1970_s(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

#[cfg(test)]
mod tests {
    use super::minute;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (s, date) in [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (1_709_251_199, "2024-02-29 23:59"),
            (1_795_327_800, "2026-11-22 06:10"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(minute(s), date);
        }
    }
}
