import Configuration
import Foundation
import RelayStore

/// Where the Debian package and systemd keep what belongs to the relay's service.
enum PackageFiles {
    static let configuration = "/etc/zonecast/zonecast.yaml"
    static let enabledService = "/etc/systemd/system/multi-user.target.wants/zonecast.service"
    private static let data = "/var/lib/zonecast"

    static var configurationIfThere: String? {
        FileManager.default.fileExists(atPath: configuration) ? configuration : nil
    }

    /// The file that a command's settings are read from: the one named, by the environment too; for who names neither that nor
    /// a folder, where the package keeps it.
    static func settings(named file: String?, data: String?) -> String? {
        let environment = ProcessInfo.processInfo.environment
        if let named = file ?? environment["ZONECAST_CONFIG"] { return named }
        guard data == nil, environment["ZONECAST_DATA"] == nil else { return nil }
        return configurationIfThere
    }

    /// The data folder of a command that is told none: the environment's, else the one that the configuration names.
    static let standardData: String = {
        if let named = ProcessInfo.processInfo.environment["ZONECAST_DATA"] { return named }
        guard let file = settings(named: nil, data: nil) else { return ServeSettings().data }
        // Whoever may not read that is told whose the folder is.
        return dataFolder(by: file) ?? (file == configuration ? data : ServeSettings().data)
    }()

    /// What a configuration file says of the data folder; `nil` where it says nothing or cannot be read.
    private static func dataFolder(by file: String) -> String? {
        guard let text = FileManager.default.contents(atPath: file),
            let settings = try? YAMLSnapshot(data: text.bytes, providerName: file, parsingOptions: .default),
            let value = try? settings.value(forKey: AbsoluteConfigKey(ConfigKey("data")), type: .string).value,
            case .string(let folder) = value.content
        else { return nil }
        return folder
    }

    /// What starts the relay of a data folder, for whoever is to type it.
    static func start(on folder: String, by file: String? = nil) -> String {
        let isService =
            file == nil || file == configuration
            ? dataFolder(by: configuration).map { absolute($0) == absolute(folder) } ?? false : false
        if isService { return "systemctl start zonecast" }
        return "zonecast serve \(file.map { "--config \($0.shellWord)" } ?? "--data \(folder.shellWord)")"
    }

    private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
}
