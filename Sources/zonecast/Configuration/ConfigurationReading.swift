import Configuration
import Foundation

/// Reads settings from flags, the environment, the file and the defaults, in order of precedence.
struct ConfigurationReading {
    /// Where a value comes from, for error texts and `config show`.
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
    /// The origin of each key's value.
    private(set) var origins: [String: Origin] = [:]

    private let flags: [String: String]
    private let environment: [String: String]
    private let filePath: String?
    private let lines: [String: Int]

    /// - Parameters:
    ///   - flags: Values of the command line, by key.
    ///   - environment: The process's environment; only `ZONECAST_…` variables are used.
    ///   - file: The path of a YAML file.
    /// - Throws: `CommandFailure` with a line for each error.
    init(flags: [String: String], environment: [String: String], file: String?) async throws {
        var faults: [String] = []
        self.flags = flags
        self.environment = Self.own(environment, &faults)
        filePath = file
        lines = try file.map { try Self.lines(of: $0, &faults) } ?? [:]
        let reader = ConfigReader(providers: try await providers(besides: faults))
        let keys = ConfigurationKeys.all
        // The other defaults depend on this key.
        for key in keys where key.name == "dev" { _ = apply(key, reader) }
        settings = ServeSettings(isDev: settings.isDev)
        faults += keys.compactMap { apply($0, reader) }
        do {
            try settings.applyTLSFiles()
            try settings.applyDomain(isListenSet: origins["listen"] != .standard)
        } catch {
            faults.append("\(error)")
        }
        guard faults.isEmpty else { throw CommandFailure(faults) }
    }

    /// Applies one key; returns an error text if its value is invalid.
    private mutating func apply(_ key: ConfigurationKey, _ reader: ConfigReader) -> String? {
        let name = ConfigKey(key.name)
        // A list in the file is an array; all other values are text that the key parses.
        guard let text = reader.string(forKey: name) ?? reader.stringArray(forKey: name)?.joined(separator: ",") else {
            origins[key.name] = .standard
            return nil
        }
        let origin = origin(of: key)
        origins[key.name] = origin
        guard !key.write(&settings, text) else { return nil }
        let objection = key.objection(text).map { " \($0)" } ?? ""
        return "\(place(of: key, origin)): \"\(StoreAddress.withoutPassword(text))\" is not \(key.form).\(objection)"
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

    /// Returns the configuration providers; if the file is not YAML, `faults` are better error texts and are thrown
    /// first.
    private func providers(besides faults: [String]) async throws -> [any ConfigProvider] {
        let given = flags.map { (AbsoluteConfigKey(ConfigKey($0.key)), Self.value($0.value)) }
        let variables = environment.map { (String($0.key.dropFirst(Self.prefix.count)), $0.value) }
        let providers: [any ConfigProvider] = [
            InMemoryProvider(name: "flags", values: Dictionary(uniqueKeysWithValues: given)),
            EnvironmentVariablesProvider(environmentVariables: Dictionary(uniqueKeysWithValues: variables)),
        ]
        // A file in which every key is commented out is not a YAML mapping and sets nothing.
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

    // MARK: Unknown names

    private static let prefix = "ZONECAST_"
    /// Returns the variables that are settings and reports misspelled ones.
    ///
    /// Ignores other variables with the prefix: other programs may use it too.
    private static func own(_ environment: [String: String], _ faults: inout [String]) -> [String: String] {
        let ours = environment.filter { $0.key.hasPrefix(prefix) && !SDKVariables.names.contains($0.key) }
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
                "The configuration \(path) cannot be read: \(String(cString: strerror(fault))). Fix that, or name another file with --config."
            )
        }
        let file = ConfigurationFile(String(decoding: data, as: UTF8.self))
        faults += file.unreadableLines.map {
            "\(name(of: path)) line \($0): write one  key: value  per line, and indent nested keys."
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
                faults.append("\(place) occurs twice. Keep one of the two.")
            }
        }
        return lines
    }

    private static func hint(_ suggestion: String?) -> String {
        suggestion.map { " Did you mean \"\($0)\"?" } ?? " For all keys: zonecast config reference"
    }
}

extension CommandFailure {
    /// All errors of a configuration, one per line.
    init(_ faults: [String]) { self.init(.usage, faults.joined(separator: "\n")) }
}
