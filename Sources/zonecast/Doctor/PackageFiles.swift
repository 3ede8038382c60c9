import Configuration
import Foundation
import RelayCore
import RelaySystem

/// Paths of the Debian package and of systemd for the relay's service.
enum PackageFiles {
    static let configuration = "/etc/zonecast/zonecast.yaml"
    static let enabledService = "/etc/systemd/system/multi-user.target.wants/zonecast.service"
    private static let data = "/var/lib/zonecast"

    static var configurationIfThere: String? {
        FileManager.default.fileExists(atPath: configuration) ? configuration : nil
    }

    /// Returns the configuration file of a command.
    ///
    /// This is the file named on the command line or in the environment; if neither a file nor a data folder is named,
    /// the package's file.
    static func settings(named file: String?, data: String?) -> String? {
        let environment = ProcessInfo.processInfo.environment
        if let named = file ?? environment["ZONECAST_CONFIG"] { return named }
        guard data == nil, environment["ZONECAST_DATA"] == nil else { return nil }
        return configurationIfThere
    }

    /// The default data folder: the environment's, else the configuration's.
    static let standardData: String = {
        if let named = ProcessInfo.processInfo.environment["ZONECAST_DATA"] { return named }
        guard let file = settings(named: nil, data: nil) else { return ServeSettings().data }
        // If the file is unreadable for this user, errors will name the package's folder and its owner.
        return dataFolder(by: file) ?? (file == configuration ? data : ServeSettings().data)
    }()

    /// Returns the data folder that a configuration file names; `nil` if it names none or cannot be read.
    private static func dataFolder(by file: String) -> String? { value(of: "data", in: file) }

    /// Returns the address of the relays' database: the environment's, else the configuration's.
    static func standardStore(by file: String?) -> String? {
        if let named = ProcessInfo.processInfo.environment["ZONECAST_STORE"] { return named }
        return file.flatMap { value(of: "store", in: $0) }
    }

    /// Returns a text of a configuration file; `nil` if it has none or cannot be read.
    static func value(of key: String, in file: String) -> String? {
        guard let text = FileManager.default.contents(atPath: file),
            let settings = try? YAMLSnapshot(data: text.bytes, providerName: file, parsingOptions: .default),
            let value = try? settings.value(forKey: AbsoluteConfigKey(ConfigKey(key)), type: .string).value,
            case .string(let text) = value.content
        else { return nil }
        return text
    }

    /// Returns the command that starts the relay of a data folder.
    static func start(on folder: String, by file: String? = nil) -> String {
        let isService =
            file == nil || file == configuration
            ? dataFolder(by: configuration).map { absolute($0) == absolute(folder) } ?? false : false
        if isService { return "systemctl start zonecast" }
        let store = file == nil ? DataFolder.database.map { "--store \($0.description.shellWord) " } ?? "" : ""
        return "zonecast serve \(store)\(file.map { "--config \($0.shellWord)" } ?? "--data \(folder.shellWord)")"
    }

    private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
}
