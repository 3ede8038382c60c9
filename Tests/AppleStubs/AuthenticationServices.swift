// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation
// The part of AuthenticationServices that SyncedNotes uses.

public import Foundation
public import SwiftUI

public enum ASWebAuthenticationSession {
    public struct Callback: Sendable {
        public static func customScheme(_ scheme: String) -> Callback { Callback() }
    }
}

@MainActor public struct WebAuthenticationSession: Sendable {
    public enum BrowserSession: Sendable { case ephemeral }

    public func authenticate(
        using url: URL,
        callback: ASWebAuthenticationSession.Callback,
        preferredBrowserSession: BrowserSession? = nil,
        additionalHeaderFields: [String: String]
    ) async throws -> URL { url }
}

extension EnvironmentValues {
    public var webAuthenticationSession: WebAuthenticationSession { fatalError() }
}
