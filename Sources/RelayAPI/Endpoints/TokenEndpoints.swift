import Records
import RelayCore
import Wire

/// `tokens/create`.
///
/// See Wire.md, "Long polling".
func createToken(_ context: RequestContext) throws -> EndpointAnswer {
    let environment = try apnsEnvironment(context)
    let token = try context.couriers.create(for: context.authentication, in: context.home)
    let home = context.home
    let base = context.authentication.signIn.base
    let path = "/device/1/\(home.container.name)/\(home.environment.rawValue)/webcourier"
    return EndpointAnswer {
        $0.member("apnsEnvironment", environment)
        $0.member("apnsToken", token)
        $0.member("webcourierURL", "\(base)\(path)?tok=\(token)")
    }
}

/// `tokens/register`.
///
/// See Wire.md, "Long polling".
func registerToken(_ context: RequestContext) throws -> EndpointAnswer {
    _ = try apnsEnvironment(context)
    let text = try context.body.required("apnsToken").string()
    try context.couriers.register(text, for: context.authentication, in: context.home)
    return EndpointAnswer { _ in }
}

/// Reads and validates `apnsEnvironment`, which has no effect and is only returned.
private func apnsEnvironment(_ context: RequestContext) throws -> String {
    let word = try context.body["apnsEnvironment"]?.string() ?? context.home.environment.rawValue
    guard Environment(rawValue: word) != nil else {
        throw RelayError.badRequest("apnsEnvironment must be development or production.")
    }
    return word
}
