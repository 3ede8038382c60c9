import Foundation
import RelayStore

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
        // Between single quotes, only the single quote itself is escaped, by doubling it.
        if value.contains(where: { "\"\\".contains($0) }) { return "'\(value.replacing("'", with: "''"))'" }
        return value.isEmpty || value.contains { " #,[]{}'".contains($0) } ? "\"\(value)\"" : value
    }

    /// Creates the file, or appends the keys it lacks; keys that are set keep their values.
    static func complete(_ path: String, with settings: [(key: String, value: String)]) throws -> InitStep {
        let old = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
        let known = Set(ConfigurationFile(old ?? "").entries.map(\.name))
        let missing = settings.filter { !known.contains($0.key) }
        let lines = missing.map { "\($0.key): \(written($0.value))\n" }.joined()
        guard let old else { return try NewFile.write(reference + "\n" + lines, to: path, what: "configuration") }
        guard !missing.isEmpty else { return InitStep("configuration", path, isNew: false) }
        do {
            let gap = old.hasSuffix("\n") || old.isEmpty ? "\n" : "\n\n"
            try Data((old + gap + lines).utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            throw CommandFailure(.failed, "\(path) cannot be written: \(FolderAccess.reason(error)). Run this as root.")
        }
        return InitStep("configuration", "\(path): \(missing.map(\.key).joined(separator: ", "))", isNew: true)
    }
}
