import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * Takes the tokens that Google's handler for clients sends, as Google's brokers do: a header with the
 * algorithm GOOG_OAUTH2_TOKEN, claims, and an access token in the place of the signature. It is an
 * agent as well, so that it comes onto the class path of a broker.
 */
public class GoogleTokenValidator implements AuthenticateCallbackHandler {
  public static void premain(String arguments) {}

  @Override
  public void configure(
      Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {}

  @Override
  public void close() {}

  @Override
  public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
    for (Callback callback : callbacks) {
      if (!(callback instanceof OAuthBearerValidatorCallback)) {
        throw new UnsupportedCallbackException(callback);
      }
      OAuthBearerValidatorCallback found = (OAuthBearerValidatorCallback) callback;
      String[] parts = found.tokenValue().split("\\.");
      if (parts.length != 3) {
        found.error("invalid_token", null, null);
        continue;
      }
      JsonNode header = json(parts[0]);
      JsonNode claims = json(parts[1]);
      String access = new String(Base64.getUrlDecoder().decode(parts[2]));
      boolean known =
          "GOOG_OAUTH2_TOKEN".equals(header.path("alg").asText())
              && "JWT".equals(header.path("typ").asText())
              && access.startsWith("ya29.")
              && claims.path("exp").asLong() * 1000 > System.currentTimeMillis()
              && claims.path("scope").asText().equals("kafka");
      if (known) {
        found.token(token(found.tokenValue(), claims));
      } else {
        found.error("invalid_token", null, null);
      }
    }
  }

  private static JsonNode json(String part) throws IOException {
    return new ObjectMapper().readTree(Base64.getUrlDecoder().decode(part));
  }

  private static OAuthBearerToken token(String value, JsonNode claims) {
    return new OAuthBearerToken() {
      @Override
      public String value() {
        return value;
      }

      @Override
      public Set<String> scope() {
        return Set.of("kafka");
      }

      @Override
      public long lifetimeMs() {
        return claims.path("exp").asLong() * 1000;
      }

      @Override
      public String principalName() {
        return claims.path("sub").asText();
      }

      @Override
      public Long startTimeMs() {
        return claims.path("iat").asLong() * 1000;
      }
    };
  }
}
