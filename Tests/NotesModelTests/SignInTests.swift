import Foundation
import NotesModel
import TestSupport
import Testing
import ZoneKit
import ZoneTesting

@Suite struct SignInTests {
    @Test func onlyAVisitorIsSentToTheSignInPage() async throws {
        let relay = try TestRelay()
        let storage = TokenFile(URL(fileURLWithPath: ScratchFolder().path))
        let visitor = SignIn(relay.visitor().container, storage: storage)
        #expect(try await visitor.page()?.path.isEmpty == false)
        let alice = SignIn(relay.device(of: "alice").container, storage: storage)
        #expect(try await alice.page() == nil)
    }

    @Test func theTokenOfTheCallbackIsKeptUntilSigningOut() async throws {
        let folder = ScratchFolder()
        defer { withExtendedLifetime(folder) {} }
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let file = URL(fileURLWithPath: folder.path).appendingPathComponent("token")
        let relay = try #require(URL(string: "http://127.0.0.1:1"))
        let signIn = SignIn(relay: relay, apiToken: "app", storage: TokenFile(file))
        #expect(try await signIn.cloud.accountStatus() == .noAccount)

        await #expect(throws: CKError.self) {
            try await signIn.finish(try #require(URL(string: "org.example.notes://done?error=1")))
        }
        #expect(TokenFile(file).token() == nil)

        try await signIn.finish(try #require(URL(string: "org.example.notes://done?ckWebAuthToken=a%2Bb%3D%3D")))
        #expect(TokenFile(file).token() == "a+b==")
        let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)

        try await signIn.signOut()
        #expect(TokenFile(file).token() == nil)
        #expect(try await signIn.cloud.accountStatus() == .noAccount)
    }
}
