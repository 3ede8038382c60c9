import Configuration
import Foundation

/// Reads settings: flags before the environment before the file before the defaults.
struct ConfigurationReading {
    /// Where a value came from, for the person who asks or who made a mistake.
    enum Origin: Hashable {
        case flag
        case environment
        case file(line: Int)
        case standard

        var words: String {
            switch self {
            case .flag: "flag"
            case .environment: "environment"
            case .file(let line): "file line \(line)"
            case .standard: "default"
            }
        }
    }

    private(set) var settings = ServeSettings()
    /// Where each key's value came from.
    private(set) var origins: [String: Origin] = [:]

    private let flags: [String: String]
    private let environment: [String: String]
    private let filePath: String?
    private let lines: [String: Int]

    /// - Parameters:
    ///   - flags: values given on the command line, by key.
    ///   - environment: the process's; only `ZONECAST_…` counts.
    ///   - file: the path of a YAML file.
    /// - Throws: a `CommandFailure` with a line for each thing that cannot be.
    init(flags: [String: String], environment: [String: String], file: String?) async throws {
        var faults: [String] = []
        self.flags = flags
        self.environment = Self.own(environment, &faults)
        filePath = file
        lines = try file.map { try Self.lines(of: $0, &faults) } ?? [:]
        let reader = ConfigReader(providers: try await providers(besides: faults))
        let keys = ConfigurationKeys.all
        // Other defaults hang on this one.
        for key in keys where key.name == "dev" { _ = apply(key, reader) }
        settings = ServeSettings(isDev: settings.isDev)
        faults += keys.compactMap { apply($0, reader) }
        do { try settings.settleTLS() } catch { faults.append("\(error)") }
        guard faults.isEmpty else { throw CommandFailure(faults) }
    }

    /// What is wrong with the value, if something is.
    private mutating func apply(_ key: ConfigurationKey, _ reader: ConfigReader) -> String? {
        let name = ConfigKey(key.name)
        // A list in the file is an array; everything else is text that the key itself understands.
        guard let text = reader.string(forKey: name) ?? reader.stringArray(forKey: name)?.joined(separator: ",") else {
            origins[key.name] = .standard
            return nil
        }
        let origin = origin(of: key)
        origins[key.name] = origin
        return key.write(&settings, text) ? nil : "\(place(of: key, origin)): \"\(text)\" is not \(key.form)."
    }

    private func origin(of key: ConfigurationKey) -> Origin {
        if flags[key.name] != nil { return .flag }
        if environment[key.environmentName] != nil { return .environment }
        return lines[key.name].map { .file(line: $0) } ?? .standard
    }

    private func place(of key: ConfigurationKey, _ origin: Origin) -> String {
        switch origin {
        case .flag: "--\(key.name)"
        case .environment: key.environmentName
        case .file(let line): "\(Self.name(of: filePath ?? "")) line \(line), \(key.name)"
        case .standard: key.name
        }
    }

    /// `faults` may be why the file cannot be read as YAML, and say it better.
    private func providers(besides faults: [String]) async throws -> [any ConfigProvider] {
        let given = flags.map { (AbsoluteConfigKey(ConfigKey($0.key)), Self.value($0.value)) }
        let variables = environment.map { (String($0.key.dropFirst(Self.prefix.count)), $0.value) }
        let providers: [any ConfigProvider] = [
            InMemoryProvider(name: "flags", values: Dictionary(uniqueKeysWithValues: given)),
            EnvironmentVariablesProvider(environmentVariables: Dictionary(uniqueKeysWithValues: variables)),
        ]
        // With every key commented out a file is no YAML mapping, and nothing is set in it.
        guard let filePath, !lines.isEmpty else { return providers }
        do {
            let path = ConfigReader(provider: InMemoryProvider(values: ["filePath": Self.value(filePath)]))
            return providers + [try await FileProvider<YAMLSnapshot>(config: path)]
        } catch {
            guard faults.isEmpty else { throw CommandFailure(faults) }
            throw CommandFailure(.usage, "\(Self.name(of: filePath)) \(YAMLFault(error))")
        }
    }

    private static func value(_ text: String) -> ConfigValue { ConfigValue(.string(text), isSecret: false) }

    private static func name(of path: String) -> String { URL(fileURLWithPath: path).lastPathComponent }

    // MARK: Names that are none

    private static let prefix = "ZONECAST_"
    /// What is read elsewhere.
    private static let otherVariables: Set<String> = ["ZONECAST_CONFIG"]

    /// Leaves alone what looks like no setting at all: other programs may use the same beginning.
    private static func own(_ environment: [String: String], _ faults: inout [String]) -> [String: String] {
        let ours = environment.filter { $0.key.hasPrefix(prefix) && !otherVariables.contains($0.key) }
        let names = ConfigurationKeys.all.map(\.environmentName)
        for name in ours.keys.sorted() where !names.contains(name) {
            let rest = String(name.dropFirst(prefix.count))
            let near = ConfigurationKeys.suggestion(for: rest, among: names.map { String($0.dropFirst(prefix.count)) })
            guard let near else { continue }
            faults.append("\"\(name)\" in the environment is not a setting. Did you mean \"\(prefix)\(near)\"?")
        }
        return ours.filter { names.contains($0.key) }
    }

    private static func lines(of path: String, _ faults: inout [String]) throws -> [String: Int] {
        guard let data = FileManager.default.contents(atPath: path) else {
            let fault = access(path, R_OK) == 0 ? EISDIR : errno
            throw CommandFailure(
                .usage,
                "The configuration \(path) cannot be read: \(String(cString: strerror(fault))). Mend that, or name another file with --config."
            )
        }
        let file = ConfigurationFile(String(decoding: data, as: UTF8.self))
        faults += file.oddLines.map {
            "\(name(of: path)) line \($0): write one  key: value  on a line, nested keys further in."
        }
        var lines: [String: Int] = [:]
        let known = Set(ConfigurationKeys.all.map(\.name))
        for entry in file.entries {
            let place = "\(name(of: path)) line \(entry.line): \"\(entry.name)\""
            guard known.contains(entry.name) else {
                let meant = hint(ConfigurationKeys.suggestion(for: entry.name))
                faults.append("\(place) is not a key.\(meant)")
                continue
            }
            if lines.updateValue(entry.line, forKey: entry.name) != nil {
                faults.append("\(place) is there twice. Keep one of the two.")
            }
        }
        return lines
    }

    private static func hint(_ suggestion: String?) -> String {
        suggestion.map { " Did you mean \"\($0)\"?" } ?? " All keys: zonecast config reference"
    }
}

extension CommandFailure {
    /// All that is wrong with a configuration, a line for each.
    init(_ faults: [String]) { self.init(.usage, faults.joined(separator: "\n")) }
}
