"""Words with a capital that name nobody: what opens sentences, days and months, and what stands around names.

Of the languages that the default embedder knows, those with capitals: English, French, German, Italian, Dutch, Polish,
Portuguese, Spanish, Turkish and Russian. A word that is a common name in another of them is left out (Turkish `ben`, Spanish
`julio`). All are case-folded.
"""

from __future__ import annotations

from typing import Final


def words(listed: str) -> frozenset[str]:
    """The words of a list with blanks between them."""
    return frozenset(listed.split())


#: Days and months, each the end of any name that stands before it.
DATES: Final = words(
    """
    monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thurs fri sat mondays tuesdays wednesdays
    thursdays fridays saturdays sundays january february march april may june july august september october november december
    feb apr jul aug sep sept oct nov dec
    montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag januar jänner februar märz mai juni juli oktober
    dezember
    lundi mardi mercredi jeudi vendredi samedi dimanche janvier février juin juillet août septembre octobre novembre
    décembre
    lunes martes miércoles jueves viernes sábado enero febrero marzo abril mayo junio agosto septiembre octubre noviembre
    diciembre
    lunedì martedì mercoledì giovedì venerdì sabato domenica gennaio febbraio aprile maggio giugno luglio settembre ottobre
    dicembre
    segunda-feira terça-feira quarta-feira quinta-feira sexta-feira janeiro fevereiro março maio junho julho setembro outubro
    novembro dezembro
    maandag dinsdag woensdag donderdag vrijdag zaterdag zondag januari februari maart mei augustus
    poniedziałek wtorek środa czwartek piątek sobota niedziela styczeń luty marzec kwiecień czerwiec lipiec sierpień wrzesień
    październik listopad grudzień
    pazartesi salı çarşamba perşembe cuma cumartesi pazar ocak şubat mart mayıs haziran temmuz ağustos eylül ekim kasım
    aralık
    понедельник вторник среда четверг пятница суббота воскресенье январь февраль март апрель май июнь июль август сентябрь
    октябрь ноябрь декабрь
    """
)
#: Months as they are cut short, where that is a name too: a number after them makes the difference.
MONTHS_OR_NAMES: Final = words("jan jun mar")

#: What stands with a capital before or instead of a name, mostly because it opens a sentence.
OPENERS: Final = words(
    """
    i me my mine we us our you your yours he him his she her hers it its they them their this that these those who whom whose
    which what when where why how the a an and or but nor so yet if then than because while although though as at by for from
    in into of off on onto out over to under up with without about after again against before between during since through
    until upon within not no yes ok okay all any anyone anything both each either every everyone everybody everything few many
    more most much neither nobody none nothing one other others several some somebody someone something such there here now
    just only also too very still even ever never always often sometimes usually once maybe perhaps please thanks thank thx
    hello hi hey dear bye goodbye wow woah whoa woohoo oh ooh aw aww ah haha hmm well alright
    anytime whenever apparently yeah yep yup nope sure sorry cool glad congrats congratulations awesome amazing
    absolutely definitely exactly hopefully unfortunately luckily actually anyway totally
    really today tomorrow yesterday tonight lately recently finally am is are was were be been being do does did done has
    have had can could might must shall should would let lets get got go goes went gone come came make made take took give gave
    tell told ask asked say said says see saw seen meet met call called buy bought know knows think thinks need needs want
    wants use uses used visit visited remember remind note love loves loved like likes liked find found keep try check send
    sent read write wrote talk talked moved started thought heard felt feel add added fix fixed run ran set update updated
    prefer prefers wish hope guess tv pc pm fyi btw lol omg todo asap re ps
    je tu il elle nous vous ils elles mon mes notre nos votre vos leur ce cet cette ces qui que quoi où quand comment
    pourquoi et ou mais donc car comme dans en sur sous avec sans pour par chez du des à au aux une oui non merci bonjour salut
    hier demain ici voilà
    ich du er sie es wir ihr ihre ihren ihrem ihrer ihnen mein meine meinen meinem meiner dein deine sein seine unser unsere der
    die das den dem des ein eine einen einem einer kein keine dieser diese dieses wer was wann wo wie warum und oder aber denn
    wenn weil als ob mit von bei nach aus für ohne gegen auf zu zum zur im vom beim über unter vor seit bis nicht ja nein danke
    bitte hallo liebe lieber guten heute morgen gestern hier dort auch noch schon nur jetzt dann viele alle
    io noi voi lui lei loro il lo gli uno un questo questa chi cosa quando dove come perché e o però se con senza
    per tra fra da di nel nella alla dal dalla sì grazie ciao oggi domani ieri
    ik jij je hij zij wij jullie u uw mijn onze het een dit dat deze wie wat wanneer waar hoe waarom en of maar want als met
    zonder voor door bij naar uit op aan tot niet nee dank bedankt hoi vandaag gisteren ook nog
    ja ona ono oni one pan pani mój moja moje nasz ten ta to kto co kiedy gdzie jak dlaczego i lub albo ale jeśli z ze w
    we na do od po za przez dla bez nie tak dziękuję cześć dzień dziś dzisiaj jutro wczoraj
    eu ele ela nós eles elas você vocês meu minha seu sua nosso os um uma isto isso quem onde porque mas ou com sem para até
    não sim obrigado obrigada olá oi hoje amanhã ontem
    yo tú él nosotros ellos ellas usted ustedes mis sus nuestro este esta esto ese esa quién qué cuándo dónde cómo
    y pero porque si con sin por hasta desde entre sobre sí gracias hola hoy mañana ayer
    sen biz siz onlar bu şu ve ama fakat veya çünkü için ile evet hayır merhaba selam teşekkürler dün bugün yarın
    я мы ты вы он она оно они мой моя моё мои наш наша ваш ваша вас вам вами его её их это этот эта эти тот кто что где когда
    как почему а и но или если чтобы потому в во на с со к ко у о об от до из за по под над при для без не нет да ну вот уже
    ещё еще все всё сегодня завтра вчера привет спасибо пожалуйста мне меня нам нас был была было были
    """
)

#: What stands right after a subject: a lone first word before one of these is a name or a noun, no verb and no greeting.
AFTER_A_SUBJECT: Final = words(
    """
    is was has had does did will would can could might must should said says told tells asked asks thinks knows likes loves
    hates prefers wants needs works lives uses plays wrote went goes came got gets made makes took takes gave gives called
    calls met moved bought became owns isn't wasn't hasn't doesn't didn't won't can't
    est était avait aime adore déteste préfère veut travaille habite dit pense sait
    ist war hat hatte mag liebt hasst wohnt arbeitet lebt sagt sagte denkt weiß geht kam kommt spielt heißt
    è era ha aveva ama odia preferisce vive lavora dice vuole abita
    heeft houdt woont werkt zegt zei wil haat vindt gaat
    jest był była miał miała lubi kocha nienawidzi woli mieszka pracuje mówi powiedział powiedziała chce
    é está tem tinha gosta mora trabalha disse quer odeia prefere foi
    tiene tenía trabaja dijo quiere prefiere fue
    любит ненавидит предпочитает живёт живет работает сказал сказала говорит хочет был была думает знает играет
    """
)

#: Nouns that often open a sentence before such a verb.
NOUNS: Final = words(
    """
    life nature art family dance music work home food dinner lunch breakfast school money time weather progress change lots tons
    love health sleep sport sports news people kids children friends books store house business practice traffic
    """
)

AND: Final = words("and et und e y i en ve и")
#: What joins the words of one name, and what may stand only after one of these.
INSIDE: Final = words("of de da di del della dos du van von bin ibn")
INSIDE_AFTER: Final = words("the la las los der den het")
#: Said before a name, and no part of it.
COURTESIES: Final = words(
    "mr mrs ms mx dr prof professor herr frau hr fr mme mlle monsieur madame señor señora sr sra signor signora "
    "pan pani meneer mevrouw dhr mevr г-н г-жа господин госпожа"
)
#: French and Italian articles and prepositions that lose their vowel before a name.
ELIDED: Final = words("l d j c qu dell all nell sull dall un")

#: A text with two of these is read as German, whose nouns all have capitals.
GERMAN: Final = words(
    "und ist nicht ich ein eine einen der das mit auf für dem wir sich auch habe mein meine im zum zur vom bei nach aber heute "
    "gestern mag"
)
#: In German, a lone word with a capital is taken for a name after one of these alone; nouns mostly have an article.
BEFORE_A_GERMAN_NAME: Final = words("mit von bei nach aus in für ohne gegen und oder namens heißt traf")
GERMAN_NOUNS: Final = words("hause fuß ordnung ruhe zukunft angst freude freunden kindern")
