import Testing
import ZoneKit

/// Fails unless `body` throws a `CKError` with this code.
func expect(
    _ code: CKError.Code,
    at location: SourceLocation = #_sourceLocation,
    _ body: () async throws -> Void
) async {
    do {
        try await body()
        Issue.record("nothing was thrown, \(code) was expected", sourceLocation: location)
    } catch {
        #expect((error as? CKError)?.code == code, "\(error)", sourceLocation: location)
    }
}

/// Fails unless `body` throws a `CKError` with this code.
func expect(
    _ code: CKError.Code,
    at location: SourceLocation = #_sourceLocation,
    _ body: () throws -> Void
) {
    do {
        try body()
        Issue.record("nothing was thrown, \(code) was expected", sourceLocation: location)
    } catch {
        #expect((error as? CKError)?.code == code, "\(error)", sourceLocation: location)
    }
}
