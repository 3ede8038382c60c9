import Crypto
import Foundation
import RelayGateways

/// What the configuration says of pushes, files not yet read.
struct PushChoices: Sendable {
    var contact: String?
    var sendsToNtfy = false
    var hosts = PushSettings.knownHosts
    var trustFile: String?
    var apnsKeyFile: String?
    var apnsKeyID: String?
    var apnsTeamID: String?
    var apnsTopics: [String] = []
    var fcmAccountFile: String?

    /// Reads the files; `nil` where no push service is set up.
    ///
    /// The key for Web Push is drawn from the data folder's own key.
    func settings(relayKey: [UInt8]) throws -> PushSettings? {
        guard contact != nil || sendsToNtfy || apnsKeyFile != nil || fcmAccountFile != nil else { return nil }
        var settings = PushSettings()
        settings.hosts = hosts
        settings.sendsToNtfy = sendsToNtfy
        settings.webPush = try contact.map { .init(key: try .webPush(relayKey: relayKey), contact: $0) }
        settings.apns = try apnsKeyFile.map { try apple(file: $0) }
        settings.fcm = try fcmAccountFile.map { try google(file: $0) }
        return settings
    }

    /// Which services are set up, for people.
    var names: [String] {
        [
            apnsKeyFile.map { _ in "Apple's (\(apnsTopics.joined(separator: ", ")))" },
            fcmAccountFile.map { _ in "Firebase" }, contact.map { _ in "Web Push and UnifiedPush" },
            sendsToNtfy ? "ntfy" : nil,
        ].compactMap { $0 }
    }

    private func google(file: String) throws -> PushSettings.FCM {
        let json = FileManager.default.contents(atPath: file).map { [UInt8]($0) }
        guard let json, let account = GoogleAccount(json: json) else {
            throw CommandFailure(
                .usage,
                "push.fcm-account-file: \(file) is no service account's JSON file with project_id, client_email and private_key."
            )
        }
        return PushSettings.FCM(account: account)
    }

    private func apple(file: String) throws -> PushSettings.APNs {
        guard let apnsKeyID, let apnsTeamID, !apnsTopics.isEmpty else {
            throw CommandFailure(
                .usage,
                "push.apns-key-file also wants push.apns-key-id, push.apns-team-id and push.apns-topics."
            )
        }
        let text = FileManager.default.contents(atPath: file).map { String(decoding: $0, as: UTF8.self) }
        guard let text, let key = try? P256.Signing.PrivateKey(pemRepresentation: text) else {
            throw CommandFailure(.usage, "push.apns-key-file: \(file) is no readable .p8 file with a P-256 key.")
        }
        return PushSettings.APNs(key: key, keyID: apnsKeyID, teamID: apnsTeamID, topics: apnsTopics)
    }
}
