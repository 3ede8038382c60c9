import Foundation

/// Where the Debian package and systemd keep what belongs to the relay's service.
enum PackageFiles {
    static let configuration = "/etc/zonecast/zonecast.yaml"
    static let enabledService = "/etc/systemd/system/multi-user.target.wants/zonecast.service"

    static var configurationIfThere: String? {
        FileManager.default.fileExists(atPath: configuration) ? configuration : nil
    }
}
