import Crypto
import Foundation
import NIOSSL
import RelayConsole
import RelayCore
import RelayGateways
import RelayServer

/// The `push` keys of the configuration; their files are not read yet.
struct PushOptions: Sendable {
    var contact: String?
    var sendsToNtfy = false
    var hosts = PushSettings.knownHosts
    var trustFile: String?
    var apnsKeyFile: String?
    var apnsKeyID: String?
    var apnsTeamID: String?
    var apnsTopics: [String] = []
    var fcmAccountFile: String?

    /// Reads the files; returns `nil` if no push service is configured.
    ///
    /// The Web Push key is derived from the data folder's key.
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

    /// Returns the additional trust roots for push services; `nil` if no file is configured.
    func trustRoots() throws -> [NIOSSLCertificate]? {
        guard let trustFile else { return nil }
        guard let bytes = InputFile.bytes(trustFile), let roots = try? NIOSSLCertificate.fromPEMBytes(bytes),
            !roots.isEmpty
        else {
            throw CommandFailure(.usage, "push.trust-file: \(trustFile) is not a readable PEM file with certificates.")
        }
        return roots
    }

    /// The push services and their state, for the console.
    var services: [ConsoleFacts.PushServiceFact] {
        [
            .init(
                .apns,
                name: "Apple's push service",
                isSetUp: apnsKeyFile != nil,
                detail: apnsTopics.isEmpty ? nil : "for \(apnsTopics.joined(separator: ", "))",
                command: "zonecast push set apns"
            ),
            .init(
                .fcm,
                name: "Firebase Cloud Messaging",
                isSetUp: fcmAccountFile != nil,
                command: "zonecast push set fcm"
            ),
            .init(
                .webPush,
                name: "Web Push and UnifiedPush",
                isSetUp: contact != nil,
                detail: contact.map { "as \($0)" },
                command: "zonecast push set webpush"
            ),
            .init(.ntfy, name: "ntfy", isSetUp: sendsToNtfy, command: "zonecast push set unifiedpush --ntfy"),
        ]
    }

    private func google(file: String) throws -> PushSettings.FCM {
        guard let json = InputFile.bytes(file), let account = GoogleAccount(json: json) else {
            throw CommandFailure(
                .usage,
                "push.fcm-account-file: \(file) is not a service account's JSON file with project_id, client_email and private_key."
            )
        }
        return PushSettings.FCM(account: account)
    }

    private func apple(file: String) throws -> PushSettings.APNs {
        guard let apnsKeyID, let apnsTeamID, !apnsTopics.isEmpty else {
            throw CommandFailure(
                .usage,
                "push.apns-key-file also requires push.apns-key-id, push.apns-team-id and push.apns-topics."
            )
        }
        guard let text = InputFile.text(file), let key = try? P256.Signing.PrivateKey(pemRepresentation: text) else {
            throw CommandFailure(.usage, "push.apns-key-file: \(file) is not a readable .p8 file with a P-256 key.")
        }
        return PushSettings.APNs(key: key, keyID: apnsKeyID, teamID: apnsTeamID, topics: apnsTopics)
    }
}
