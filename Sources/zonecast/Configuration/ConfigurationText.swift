import Foundation
import RelayStore

/// The configuration file as text: all keys, each with its meaning, commented out.
enum ConfigurationText {
    /// What `zonecast config reference --yaml` prints, and what a new file begins as.
    static var reference: String {
        var text = """
            # zonecast: every setting with its default. Take the # away and change it; zonecast config check FILE tries it.
            # Flags come before the environment (ZONECAST_LIMITS_BODY and so on), and that before this file.

            """
        for key in ConfigurationKeys.all {
            let value = key.read(ServeSettings())
            let unit = key.unit.isEmpty ? "" : " (\(key.unit))"
            text += "\n# \(key.meaning)\(unit)\n#\(key.name): \(written(value))\n"
        }
        return text
    }

    /// A value as YAML takes it.
    static func written(_ value: String) -> String {
        // Between single quotes everything stands for itself, and one of them twice.
        if value.contains(where: { "\"\\".contains($0) }) { return "'\(value.replacing("'", with: "''"))'" }
        return value.isEmpty || value.contains { " #,[]{}'".contains($0) } ? "\"\(value)\"" : value
    }

    /// Makes the file, or adds at its end the keys that it lacks; what is set in it stays as it is.
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
