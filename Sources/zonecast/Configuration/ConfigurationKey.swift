import Foundation
import NIOCore

/// One setting: its name in the file, and `ZONECAST_` plus its name in capitals in the environment.
struct ConfigurationKey: Sendable {
    /// The name in the file; a dot separates levels of nesting.
    var name: String
    /// The unit of the number; empty for text and switches.
    var unit: String
    /// A description of one sentence.
    var meaning: String
    /// The accepted values, for error texts.
    var form: String
    /// Returns the current value in `settings`, as written in the file.
    var read: @Sendable (ServeSettings) -> String
    /// Whether the value itself is a secret, which the console must not show.
    var isSecret = false
    /// Parses a value into `settings`; returns `false` if it is invalid.
    var write: @Sendable (inout ServeSettings, _ value: String) -> Bool

    /// Returns what is wrong with a value, if the key knows more about it than its form; otherwise `nil`.
    var objection: @Sendable (String) -> String? = { _ in nil }

    /// A copy of the key, with a function that says what is wrong with a value.
    func explained(by objection: @escaping @Sendable (String) -> String?) -> ConfigurationKey {
        var key = self
        key.objection = objection
        return key
    }

    /// Returns a value in the form in which the settings keep it; `nil` if it is invalid.
    func normalized(_ text: String) -> String? {
        var settings = ServeSettings()
        return write(&settings, text) ? read(settings) : nil
    }

    /// A copy of the key, marked as secret.
    var secret: ConfigurationKey {
        var key = self
        key.isSecret = true
        return key
    }

    /// `limits.head-time` is `ZONECAST_LIMITS_HEAD_TIME`.
    var environmentName: String {
        "ZONECAST_" + name.uppercased().replacing(".", with: "_").replacing("-", with: "_")
    }
}

extension ConfigurationKey {
    typealias Place<Value> = WritableKeyPath<ServeSettings, Value> & Sendable

    /// A key with a text value; `parse` returns `nil` for invalid text.
    static func text<Value>(
        _ name: String,
        _ place: any Place<Value>,
        _ form: String,
        unit: String = "",
        _ meaning: String,
        read: @escaping @Sendable (Value) -> String,
        parse: @escaping @Sendable (String) -> Value?
    ) -> ConfigurationKey {
        ConfigurationKey(
            name: name,
            unit: unit,
            meaning: meaning,
            form: form,
            read: { read($0[keyPath: place]) },
            write: { settings, text in
                guard let value = parse(text) else { return false }
                settings[keyPath: place] = value
                return true
            }
        )
    }

    static func whole(
        _ name: String,
        _ place: any Place<Int>,
        _ bounds: ClosedRange<Int>,
        unit: String,
        _ meaning: String
    ) -> ConfigurationKey {
        .text(
            name,
            place,
            form(bounds, unit),
            unit: unit,
            meaning,
            read: { "\($0)" },
            parse: { within(bounds, $0, unit) }
        )
    }

    static func seconds(
        _ name: String,
        _ place: any Place<TimeAmount>,
        _ bounds: ClosedRange<Int>,
        _ meaning: String
    ) -> ConfigurationKey {
        seconds(name, place, bounds, meaning, read: { $0.nanoseconds / 1_000_000_000 }, value: { .seconds($0) })
    }

    static func seconds(
        _ name: String,
        _ place: any Place<Duration>,
        _ bounds: ClosedRange<Int>,
        _ meaning: String
    ) -> ConfigurationKey {
        seconds(name, place, bounds, meaning, read: { $0.components.seconds }, value: { .seconds($0) })
    }

    private static func seconds<Value>(
        _ name: String,
        _ place: any Place<Value>,
        _ bounds: ClosedRange<Int>,
        _ meaning: String,
        read: @escaping @Sendable (Value) -> Int64,
        value: @escaping @Sendable (Int64) -> Value
    ) -> ConfigurationKey {
        .text(
            name,
            place,
            form(bounds, "seconds"),
            unit: "seconds",
            meaning,
            read: { "\(read($0))" },
            parse: { within(bounds, $0, "seconds").map { value(Int64($0)) } }
        )
    }

    static func flag(_ name: String, _ place: any Place<Bool>, _ meaning: String) -> ConfigurationKey {
        .text(
            name,
            place,
            "true or false",
            meaning,
            read: { $0 ? "true" : "false" },
            parse: { ["true": true, "false": false][$0.lowercased()] }
        )
    }

    /// Splits a list at commas and trims the items.
    static func items(_ text: String) -> [String] {
        text.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
    }

    /// Returns the normalized items without duplicates; `nil` if one of them is invalid.
    static func every(_ items: [String], _ normalize: (String) -> String?) -> [String]? {
        var found: [String] = []
        for item in items {
            guard let item = normalize(item) else { return nil }
            if !found.contains(item) { found.append(item) }
        }
        return found
    }

    static func form(_ bounds: ClosedRange<Int>, _ unit: String = "") -> String {
        let number = "a whole number from \(bounds.lowerBound) to \(bounds.upperBound)"
        return switch unit {
        case "bytes": "\(number) (bytes), or a size like 5GB"
        case "seconds", "days": "\(number) (\(unit)), or a duration like 14d"
        default: number
        }
    }

    /// Parses a number in the unit, or a size or duration with its own unit, such as `5GB` or `14d`.
    static func within(_ bounds: ClosedRange<Int>, _ text: String, _ unit: String = "") -> Int? {
        Quantity.value(text, unit: unit).flatMap { bounds.contains($0) ? $0 : nil }
    }
}
