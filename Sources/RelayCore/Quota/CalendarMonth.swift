package import Records

/// A calendar month (UTC), the period over which transfers are counted.
package struct CalendarMonth: Hashable, Sendable {
    /// Years times twelve plus months; January 1970 is 23,640.
    package var number: Int

    package init(number: Int) { self.number = number }

    package init(of moment: Timestamp) {
        // Days in eras of 400 years, each year beginning in March so that the leap day comes last: Hinnant's civil_from_days.
        let days = Int(moment.milliseconds.floorDivided(by: 86_400_000)) + 719_468
        let era = days.floorDivided(by: 146_097)
        let dayOfEra = days - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        number = (yearOfEra + era * 400) * 12 + monthFromMarch + 2
    }

    package var next: CalendarMonth { CalendarMonth(number: number + 1) }

    /// The month's first millisecond.
    package var start: Timestamp {
        let fromMarch = number - 2
        let (year, month) = (fromMarch.floorDivided(by: 12), fromMarch - fromMarch.floorDivided(by: 12) * 12)
        let era = year.floorDivided(by: 400)
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * month + 2) / 5
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return Timestamp(milliseconds: Int64(era * 146_097 + dayOfEra - 719_468) * 86_400_000)
    }
}

extension BinaryInteger {
    fileprivate func floorDivided(by divisor: Self) -> Self {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}
