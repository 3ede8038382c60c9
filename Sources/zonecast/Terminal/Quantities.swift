import ArgumentParser

/// A number of bytes such as `500MB`, `5 GB` or `1000000`; powers of ten, `KiB` and the like powers of two.
struct ByteSize: Hashable {
    var bytes: Int64

    private static let units: [(String, Int64)] = [
        ("TIB", 1 << 40), ("GIB", 1 << 30), ("MIB", 1 << 20), ("KIB", 1 << 10),
        ("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000), ("B", 1), ("", 1),
    ]

    init?(_ text: String) {
        let text = text.uppercased().filter { $0 != " " && $0 != "_" }
        guard let (unit, factor) = Self.units.first(where: { text.hasSuffix($0.0) }),
            let bytes = Quantity.product(text.dropLast(unit.count), factor)
        else { return nil }
        self.bytes = bytes
    }
}

/// A duration such as `90s`, `15m`, `6h`, `14d` or `2w`.
enum Quantity {
    /// The seconds of each unit, which may be written out.
    private static let seconds: [(names: Set<String>, factor: Int64)] = [
        (["s", "sec", "second", "seconds"], 1), (["m", "min", "minute", "minutes"], 60),
        (["h", "hour", "hours"], 3_600), (["d", "day", "days"], 86_400), (["w", "week", "weeks"], 604_800),
    ]

    /// Returns the duration in seconds; a number without a unit counts in `unit`.
    static func seconds(_ text: String, in unit: Int64) -> Int64? {
        let text = text.lowercased().filter { $0 != " " && $0 != "_" }
        let name = text.drop { $0.isNumber }
        guard !name.isEmpty else { return product(Substring(text), unit) }
        guard let factor = seconds.first(where: { $0.names.contains(String(name)) })?.factor else { return nil }
        return product(text.dropLast(name.count), factor)
    }

    /// Returns a number of 0 or more times a factor; `nil` if it is no number or too large.
    static func product(_ number: Substring, _ factor: Int64) -> Int64? {
        guard let number = Int64(number), number >= 0 else { return nil }
        let (value, isTooMuch) = number.multipliedReportingOverflow(by: factor)
        return isTooMuch ? nil : value
    }

    /// Returns a value of a setting in the setting's unit, such as `1800` for `30m` in seconds.
    ///
    /// A number without a unit counts in the setting's unit; a duration must be a whole number of those.
    static func value(_ text: String, unit: String) -> Int? {
        if let plain = Int(text) { return plain }
        switch unit {
        case "bytes": return ByteSize(text).flatMap { Int(exactly: $0.bytes) }
        case "milliseconds":
            // Text without a unit was a number above.
            guard let seconds = Seconds(argument: text) else { return nil }
            return Int(exactly: (seconds.value * 1000).rounded())
        case "seconds", "minutes", "hours", "days":
            guard let factor = seconds.first(where: { $0.names.contains(unit) })?.factor,
                let seconds = seconds(text, in: factor), seconds % factor == 0
            else { return nil }
            return Int(exactly: seconds / factor)
        default: return nil
        }
    }
}

/// A number of seconds on the command line, with or without a unit: `5`, `0.5`, `500ms`, `90s`, `2m`.
struct Seconds: Hashable, ExpressibleByArgument, ExpressibleByIntegerLiteral {
    var value: Double

    /// Rounded up.
    var whole: Int { Int(value.rounded(.up)) }

    init(integerLiteral value: Int) { self.value = Double(value) }

    init?(argument: String) {
        let text = argument.lowercased()
        let number: Double?
        if text.hasSuffix("ms") {
            number = Double(text.dropLast(2)).map { $0 / 1000 }
        } else {
            number =
                Double(text) ?? Quantity.seconds(text, in: 1).map { Double($0) }
                ?? (text.hasSuffix("s") ? Double(text.dropLast()) : nil)
        }
        guard let number, number.isFinite, (0...1e9).contains(number) else { return nil }
        value = number
    }

    var defaultValueDescription: String { value == value.rounded() ? "\(Int(value))s" : "\(value)s" }
}

/// A duration on the command line, with its unit: `90s`, `15m`, `6h`, `14d` or `2w`; 0 needs no unit.
struct CommandDuration: Hashable, ExpressibleByArgument {
    var seconds: Int

    init(seconds: Int) { self.seconds = seconds }

    init?(argument: String) {
        if argument == "0" {
            self.init(seconds: 0)
        } else if Int(argument) != nil {
            return nil
        } else {
            guard let seconds = Quantity.seconds(argument, in: 1).flatMap({ Int(exactly: $0) }) else { return nil }
            self.init(seconds: seconds)
        }
    }

    var defaultValueDescription: String {
        for (name, factor) in [("d", 86_400), ("h", 3_600), ("m", 60)] where seconds % factor == 0 {
            return "\(seconds / factor)\(name)"
        }
        return "\(seconds)s"
    }
}
