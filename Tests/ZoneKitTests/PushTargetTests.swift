import Foundation
import Testing
import ZoneKit
import ZoneTesting

@Suite struct PushTargetTests {
    @Test func targetsAreEncodedAsTheRelayExpects() throws {
        let apns = RelayPushTarget.apns(deviceToken: Data([1, 0xAB]), bundleIdentifier: "a.b", isDevelopment: true)
        let apnsText = #"{"apns":{"token":"01ab","topic":"a.b","environment":"development"}}"#
        #expect(String(decoding: apns.body, as: UTF8.self) == apnsText)
        let address = try #require(URL(string: "https://push.example/1"))
        let web = RelayPushTarget.webPush(endpoint: address, publicKey: Data([255]), secret: Data([254]))
        #expect(
            String(decoding: web.body, as: UTF8.self)
                == #"{"webPush":{"endpoint":"https://push.example/1","keys":{"p256dh":"_w","auth":"_g"}}}"#
        )
    }

    @Test func aRelayWithoutPushesReportsIt() async throws {
        let phone = try TestRelay().device(of: "alice")
        let topic = try #require(URL(string: "https://ntfy.sh/alice"))
        let error = await #expect(throws: CKError.self) {
            try await phone.container.registerForPushes(.ntfy(topic: topic))
        }
        #expect(error?.localizedDescription.contains("sends no pushes") == true)
    }
}
