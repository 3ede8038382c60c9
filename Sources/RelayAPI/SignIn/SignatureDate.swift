import Records

/// Parses the date of a signed request: ISO 8601 with a time zone and without fractions.
///
/// See Wire.md, "Server-to-server keys".
enum SignatureDate {
    /// Parses `2026-01-25T22:15:43Z`; returns `nil` for other formats.
    ///
    /// The seconds and the separators between the numbers may be omitted; `+01:00`, `+0100` or `+01` may replace `Z`.
    static func parse(_ text: String) -> Timestamp? {
        let bytes = Array(text.utf8)
        guard let mark = bytes.firstIndex(of: UInt8(ascii: "T")),
            let zone = bytes[mark...].firstIndex(where: { !$0.isASCIIDigit && !":T".utf8.contains($0) }),
            let date = numbers(bytes[..<mark], of: [4, 2, 2], between: "-"),
            let clock = numbers(bytes[(mark + 1)..<zone], of: [2, 2, 2], between: ":")
                ?? numbers(bytes[(mark + 1)..<zone], of: [2, 2], between: ":"),
            (1...12).contains(date[1]), (1...31).contains(date[2]), clock[0] < 24, clock[1] < 60,
            let offset = offset(bytes[zone...])
        else { return nil }
        let second = clock.count == 3 ? clock[2] : 0
        guard second < 61 else { return nil }
        let days = daysSince1970(year: date[0], month: date[1], day: date[2])
        let seconds = ((days * 24 + clock[0]) * 60 + clock[1]) * 60 + second - offset
        return Timestamp(milliseconds: Int64(seconds) * 1000)
    }

    /// Parses numbers with these digit counts, either all separated by `mark` or none.
    private static func numbers(_ bytes: ArraySlice<UInt8>, of lengths: [Int], between mark: Unicode.Scalar) -> [Int]? {
        var pieces = bytes.split(separator: UInt8(ascii: mark), omittingEmptySubsequences: false)
        if pieces.count == 1 {
            var rest = bytes
            pieces = lengths.map { length in
                defer { rest = rest.dropFirst(length) }
                return rest.prefix(length)
            }
            guard rest.isEmpty else { return nil }
        }
        guard pieces.map(\.count) == lengths else { return nil }
        let found = pieces.compactMap { number($0) }
        return found.count == lengths.count ? found : nil
    }

    private static func offset(_ bytes: ArraySlice<UInt8>) -> Int? {
        guard let sign = bytes.first else { return nil }
        if sign == UInt8(ascii: "Z") { return bytes.count == 1 ? 0 : nil }
        guard sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") else { return nil }
        let rest = Array(bytes.dropFirst())
        let digits = rest.count == 5 && rest[2] == UInt8(ascii: ":") ? rest[0..<2] + rest[3..<5] : rest[...]
        guard digits.count == 4 || digits.count == 2, let hours = number(digits.prefix(2)),
            let minutes = digits.count == 4 ? number(digits.suffix(2)) : 0, hours < 24, minutes < 60
        else { return nil }
        return (sign == UInt8(ascii: "-") ? -1 : 1) * (hours * 3600 + minutes * 60)
    }

    private static func number(_ digits: some Sequence<UInt8>) -> Int? {
        var value = 0
        for digit in digits {
            guard digit.isASCIIDigit else { return nil }
            value = value * 10 + Int(digit - 0x30)
        }
        return value
    }

    /// Converts a date of the proleptic Gregorian calendar; counts from March so that the leap day comes last.
    private static func daysSince1970(year: Int, month: Int, day: Int) -> Int {
        let year = month <= 2 ? year - 1 : year
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}
