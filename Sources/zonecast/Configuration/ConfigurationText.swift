import Foundation
import Records
import RelayCore

/// The reference configuration file: all keys with their descriptions, commented out.
enum ConfigurationText {
    /// The text that `zonecast config reference --yaml` prints and that a new file contains.
    static var reference: String {
        var text = """
            # zonecast: every setting with its default. Remove the # to change one; check the file with: zonecast config check FILE
            # Flags override the environment (ZONECAST_LIMITS_BODY and so on), which overrides this file.

            """
        for key in ConfigurationKeys.all {
            let value = key.read(ServeSettings())
            let unit = key.unit.isEmpty ? "" : " (\(key.unit))"
            text += "\n# \(key.meaning)\(unit)\n#\(key.name): \(written(value))\n"
        }
        return text
    }

    /// Returns a value in YAML syntax, quoted if necessary.
    static func written(_ value: String) -> String {
        guard !isPlain(value) else { return value }
        // Between single quotes, only the single quote itself is escaped, by doubling it.
        if value.unicodeScalars.allSatisfy(isPrintable) {
            return value.contains { "\"\\".contains($0) } ? "'\(value.replacing("'", with: "''"))'" : "\"\(value)\""
        }
        let escaped = value.unicodeScalars.map { scalar in
            switch scalar {
            case "\"", "\\": "\\\(scalar)"
            case _ where isPrintable(scalar): String(scalar)
            default:
                "\\U" + String(repeating: "0", count: 8 - String(scalar.value, radix: 16).count)
                    + String(scalar.value, radix: 16)
            }
        }
        return "\"\(escaped.joined())\""
    }

    /// Returns whether YAML reads the value without quotes as this text.
    private static func isPlain(_ value: String) -> Bool {
        guard let first = value.utf8.first, first.isASCIIAlphanumeric || "/._".utf8.contains(first) else {
            return false
        }
        return value.utf8.allSatisfy { $0.isASCIIAlphanumeric || "/._-:+@%=~;".utf8.contains($0) }
            && value.utf8.last != UInt8(ascii: ":") && value.lowercased() != "null" && value != "..."
    }

    private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
        default: true
        }
    }

    /// Creates the file, or appends the keys it lacks; keys that are set keep their values.
    static func complete(_ path: String, with settings: [(key: String, value: String)]) throws -> InitStep {
        let old = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
        let known = Set(ConfigurationFile(old ?? "").entries.map(\.name))
        let missing = settings.filter { !known.contains($0.key) }
        let lines = missing.map { "\($0.key): \(written($0.value))\n" }.joined()
        let place = ConfigurationFileReplacement(path)
        guard let old else { return try NewFile.write(reference + "\n" + lines, to: place.path, what: "configuration") }
        guard !missing.isEmpty else { return InitStep("configuration", path, isNew: false) }
        let gap = old.hasSuffix("\n") || old.isEmpty ? "\n" : "\n\n"
        let draft = try place.draft(old + gap + lines)
        defer { draft.remove() }
        try draft.publish()
        return InitStep("configuration", "\(path): \(missing.map(\.key).joined(separator: ", "))", isNew: true)
    }
}
